// The network from the image to the reconstruction, with the values of the current drawing in every stage. A stage
// is a link to its view. One primary capsule is chosen: its field is marked in the image, its votes are a stage.

import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { color, css, mix, onTheme } from "../core/palette.js";
import { numberText } from "../core/scale.js";
import { createImage, DOUBLE_FRAME, ink } from "./canvas_image.js";
import { voteScale } from "./capsule_detail.js";
import { capsuleNumber } from "./capsule_number.js";
import { createColorBar } from "./color_bar.js";

const GAP = 1; // cells between two tiles
const [MAPS_IN_A_ROW, TYPES_IN_A_ROW, DIGITS_IN_A_ROW] = [3, 3, 4];
const BARS = { width: 120, height: 96, base: 80 };

// Grids side by side, in rows of `columns`; shade(value) is the color of a cell.
function tiles(grids, columns, shade) {
  const size = grids[0].length;
  const rows = Math.ceil(grids.length / columns);
  return () => {
    const background = color("paper");
    return {
      width: columns * (size + GAP) - GAP,
      height: rows * (size + GAP) - GAP,
      at: (x, y) => {
        const [column, row] = [Math.floor(x / (size + GAP)), Math.floor(y / (size + GAP))];
        const [u, v] = [x - column * (size + GAP), y - row * (size + GAP)];
        const grid = grids[row * columns + column];
        return !grid || u >= size || v >= size ? background : shade(grid[v][u]);
      },
    };
  };
}

function brightness(value) {
  return mix(color("track"), color("ink"), Math.min(1, value));
}

function sign(value) { // below and above zero
  return mix(color("track"), color(value > 0 ? "more" : "less"), Math.min(1, Math.abs(value)));
}

function above(value) { // more than an equal share
  return mix(color("track"), color("above"), value);
}

// A row of cells for each digit.
function matrix(rows, largest) {
  return () => ({ width: rows[0].length, height: rows.length, at: (x, y) => sign(rows[y][x] / largest) });
}

// onPoint({ row, column, type }) while the pointer is over a primary capsule, onPoint(null) when it leaves;
// onImage() when the first stage, whose view is the drawing itself, is chosen
export function createNetworkStrip({ onPoint, onImage }) {
  const pictures = Object.fromEntries(["image", "features", "primary", "votes", "routing", "decoder"].map((name) =>
    [name, createImage({ label: "", resolution: 240, smooth: name === "image" || name === "decoder", kind: "stage-picture" })]));
  const bars = svg("svg", { viewBox: `0 0 ${BARS.width} ${BARS.height}`, class: "stage-bars", role: "img" });
  const captions = {};
  const colors = {
    features: createColorBar({ label: t("Values of the feature maps"), kind: "amount" }),
    primary: createColorBar({ label: t("Lengths"), kind: "amount" }),
    votes: createColorBar({ label: t("Numbers of the votes"), kind: "signed" }),
    routing: createColorBar({ label: t("Times an equal share"), kind: "above" }),
  };
  const stage = (key, title, view, picture) => {
    captions[key] = h("span", { class: "small soft" });
    const link = h("a", { href: `#${view}` }, h("b", {}, title), picture,
      h("span", { class: "stage-text" }, colors[key]?.element, captions[key]));
    return h("li", {}, key === "image" ? null : h("span", { class: "flow", "aria-hidden": "true" }), link);
  };
  for (const name of ["features", "primary", "votes", "routing"]) pictures[name].element.classList.add("tiles");
  const element = h("ol", { class: "network-strip" },
    stage("image", t("Image"), "draw", pictures.image.element),
    stage("features", t("Convolution"), "compare", pictures.features.element),
    stage("primary", t("Primary capsules"), "votes", pictures.primary.element),
    stage("votes", t("Votes"), "votes", pictures.votes.element),
    stage("routing", t("Routing"), "votes", pictures.routing.element),
    stage("classes", t("Digit capsules"), "tweak", bars),
    stage("decoder", t("Decoder"), "tweak", pictures.decoder.element));
  element.querySelector("a").addEventListener("click", (event) => {
    event.preventDefault();
    onImage();
  });

  let last = null;
  let capsule = null;
  const primary = pictures.primary.element;

  function placeUnder(event) {
    const box = primary.getBoundingClientRect();
    const [rows, columns] = last.response.grid;
    const types = last.response.primary.length;
    const cell = (share, count, size) => {
      const at = Math.max(0, Math.min(count * (size + GAP) - GAP - 1e-6, share * (count * (size + GAP) - GAP)));
      return [Math.floor(at / (size + GAP)), Math.min(size - 1, Math.floor(at % (size + GAP)))];
    };
    const [line, row] = cell((event.clientY - box.top) / box.height, Math.ceil(types / TYPES_IN_A_ROW), rows);
    const [tile, column] = cell((event.clientX - box.left) / box.width, TYPES_IN_A_ROW, columns);
    return { row, column, type: line * TYPES_IN_A_ROW + tile };
  }

  primary.addEventListener("pointermove", (event) => last && onPoint(placeUnder(event)));
  primary.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && last && onPoint(null));
  // Without a mouse nothing can be pointed at: there a tap chooses a capsule. The name of the stage opens its view.
  primary.addEventListener("click", (event) => {
    if (event.pointerType === "mouse" || !last) return;
    event.preventDefault();
    onPoint(placeUnder(event));
  });

  function frame(picture, [left, top, width, height]) {
    const context = picture.element.getContext("2d");
    for (const [name, size] of DOUBLE_FRAME) {
      context.lineWidth = size;
      context.strokeStyle = css(color(name));
      context.strokeRect(left, top, width, height);
    }
  }

  // Digits on the tiles of the routing.
  function nameTiles() {
    const { element: canvas } = pictures.routing;
    pictures.routing.draw(last.routing);
    const context = canvas.getContext("2d");
    const [rows, columns] = last.response.grid;
    const lines = Math.ceil(last.response.lengths.length / DIGITS_IN_A_ROW);
    const [x, y] = [canvas.width / (DIGITS_IN_A_ROW * (columns + GAP) - GAP), canvas.height / (lines * (rows + GAP) - GAP)];
    context.font = `600 ${Math.round(canvas.height / 9)}px sans-serif`;
    context.textBaseline = "top";
    context.lineWidth = 5;
    context.strokeStyle = css(color("paper"));
    context.fillStyle = css(color("ink"));
    last.response.lengths.forEach((_, digit) => {
      const at = [(digit % DIGITS_IN_A_ROW) * (columns + GAP) * x + 3, Math.floor(digit / DIGITS_IN_A_ROW) * (rows + GAP) * y + 3];
      context.strokeText(String(digit), ...at);
      context.fillText(String(digit), ...at);
    });
  }

  // Marks a primary capsule and its field.
  function mark(next) {
    capsule = next;
    const { image, response } = last;
    const { first, step, size } = response.field_centers;
    pictures.image.draw(ink(image), t("The image, and the field of one primary capsule"));
    const pixel = pictures.image.element.width / image.length;
    const corner = (index) => (first + index * step - size / 2 + 0.5) * pixel;
    frame(pictures.image, [corner(capsule.column), corner(capsule.row), size * pixel, size * pixel]);
    pictures.primary.draw(last.lengths);
    const [rows, columns] = response.grid;
    const lines = Math.ceil(response.primary.length / TYPES_IN_A_ROW);
    const [x, y] = [primary.width / (TYPES_IN_A_ROW * (columns + GAP) - GAP), primary.height / (lines * (rows + GAP) - GAP)];
    const [tile, line] = [capsule.type % TYPES_IN_A_ROW, Math.floor(capsule.type / TYPES_IN_A_ROW)];
    const [left, top] = [(tile * (columns + GAP) + capsule.column) * x, (line * (rows + GAP) + capsule.row) * y];
    frame(pictures.primary, [left - 3, top - 3, x + 6, y + 6]);
    const number = capsuleNumber(capsule, response);
    captions.image.textContent = t("double frame: what primary capsule {number} sees", { number });
    captions.votes.textContent = t("of primary capsule {number}, one row for each digit", { number });
    const largest = voteScale(capsule, response);
    pictures.votes.draw(matrix(capsule.votes, largest), t("The votes of one primary capsule: a row for each digit, {numbers} numbers", { numbers: capsule.votes[0].length }));
    colors.votes.show(numberText(-largest, 1), "0", numberText(largest, 1));
    nameTiles();
  }

  // shades: what the positions send to each digit, from 0 to 1, where 1 stands for `most` equal shares
  function show(image, response, { shades, largest: most }) {
    const { features, num_features: count, primary: lengthsOf, best, lengths, couplings, reconstruction } = response;
    const side = features[0].length;
    const [rows, columns] = response.grid;
    const all = lengthsOf.flat(2);
    const [short, long] = [Math.min(...all), Math.max(...all)];
    last = { image, response, lengths: tiles(lengthsOf, TYPES_IN_A_ROW, (value) => brightness((value - short) / (long - short || 1))) };
    pictures.features.draw(tiles(features, MAPS_IN_A_ROW, brightness), t("{count} feature maps", { count: features.length }));
    primary.setAttribute("aria-label", t("Lengths of the primary capsules"));
    last.routing = tiles(shades, DIGITS_IN_A_ROW, above);
    pictures.routing.draw(last.routing, t("What the positions send to each digit, compared with an equal share"));
    pictures.decoder.draw(ink(reconstruction), t("What the decoder draws: {best}", { best }));
    bars.replaceChildren(...lengths.flatMap((length, digit) => {
      const x = 4 + digit * 11.4;
      return [
        svg("rect", { x, y: BARS.base - length * 74, width: 8, height: Math.max(1, length * 74), class: digit === best ? "best" : "" }),
        svg("text", { x: x + 4, y: BARS.height - 4, "text-anchor": "middle" }, String(digit)),
      ];
    }));
    bars.setAttribute("aria-label", t("Lengths of the digit capsules; {best} is the longest", { best }));
    captions.features.textContent = t("{shown} of {count} maps, {side} × {side}", { shown: features.length, count, side });
    captions.primary.textContent = t("lengths: {types} types, each at {rows} × {columns} positions", { rows, columns, types: lengthsOf.length });
    colors.features.show("0", "1");
    colors.primary.show(short.toFixed(2), long.toFixed(2));
    colors.routing.show("≤ 1 ×", `${most.toFixed(1)} ×`);
    captions.routing.textContent = t("what each position sends in iteration {iterations}, in multiples of an equal share", { iterations: couplings.length });
    captions.classes.textContent = t("bars: lengths; {numbers} numbers each", { numbers: response.pose.length });
    captions.decoder.textContent = t("draws capsule {best}", { best });
    mark(response.capsule);
  }

  onTheme(() => last && mark(capsule));
  return { element, show, mark };
}

// The network from the image to the reconstruction, with the values of the current drawing in every stage.

import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { color, css, mix } from "../core/palette.js";
import { createImage, ink } from "./canvas_image.js";

const GAP = 1; // cells between two tiles
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

function sign(value) {
  return mix(color("track"), color(value > 0 ? "more" : "less"), Math.min(1, Math.abs(value)));
}

export function createNetworkStrip() {
  const pictures = Object.fromEntries(["image", "features", "primary", "routing", "decoder"].map((name) =>
    [name, createImage({ label: "", resolution: 240, smooth: name === "image" || name === "decoder", kind: "stage-picture" })]));
  const bars = svg("svg", { viewBox: `0 0 ${BARS.width} ${BARS.height}`, class: "stage-bars", role: "img" });
  const captions = {};
  const stage = (key, title, view, picture) => {
    captions[key] = h("span", { class: "small soft" });
    return h("li", {}, h("a", { href: `#${view}` }, title), picture, captions[key]);
  };
  for (const name of ["features", "primary", "routing"]) pictures[name].element.classList.add("tiles");
  const element = h("ol", { class: "network-strip" },
    stage("image", t("Image"), "draw", pictures.image.element),
    stage("features", t("Convolution"), "draw", pictures.features.element),
    stage("primary", t("Primary capsules"), "votes", pictures.primary.element),
    stage("routing", t("Votes and routing"), "votes", pictures.routing.element),
    stage("classes", t("Digit capsules"), "tweak", bars),
    stage("decoder", t("Decoder"), "tweak", pictures.decoder.element));

  // While the pointer is over a primary capsule, its field is shown in the image.
  let last = null;
  pictures.primary.element.addEventListener("pointermove", (event) => {
    if (!last) return;
    const box = pictures.primary.element.getBoundingClientRect();
    const [grid] = last.response.grid;
    const cell = (share, count) => Math.min(grid - 1, Math.floor(share * (count * (grid + GAP) - GAP)) % (grid + GAP));
    showField(cell((event.clientY - box.top) / box.height, 2), cell((event.clientX - box.left) / box.width, 4));
  });
  pictures.primary.element.addEventListener("pointerleave", () => last && pictures.image.draw(ink(last.image)));

  function showField(row, column) {
    const { first, step, size } = last.response.field_centers;
    pictures.image.draw(ink(last.image));
    const context = pictures.image.element.getContext("2d");
    const scale = pictures.image.element.width / last.image.length;
    const corner = (index) => (first + index * step - size / 2 + 0.5) * scale;
    context.lineWidth = 6;
    context.strokeStyle = css(color("control"));
    context.strokeRect(corner(column), corner(row), size * scale, size * scale);
  }

  function show(image, response, changes) {
    last = { image, response };
    const { features, num_features: count, primary, best, lengths, couplings, reconstruction } = response;
    const side = features[0].length;
    const [rows, columns] = response.grid;
    const capsules = rows * columns * primary.length;
    pictures.image.draw(ink(image), t("The image"));
    pictures.features.draw(tiles(features, 4, brightness), t("{count} feature maps", { count: features.length }));
    const all = primary.flat(2);
    const [short, long] = [Math.min(...all), Math.max(...all)];
    const relative = (value) => brightness((value - short) / (long - short || 1));
    pictures.primary.draw(tiles(primary, 4, relative), t("Lengths of the primary capsules"));
    pictures.routing.draw(tiles(changes, 5, sign), t("What the positions send to each digit, compared with an equal share"));
    pictures.decoder.draw(ink(reconstruction), t("What the decoder draws: {best}", { best }));
    bars.replaceChildren(...lengths.flatMap((length, digit) => {
      const x = 4 + digit * 11.4;
      return [
        svg("rect", { x, y: BARS.base - length * 74, width: 8, height: Math.max(1, length * 74), class: digit === best ? "best" : "" }),
        svg("text", { x: x + 4, y: BARS.height - 4, "text-anchor": "middle" }, String(digit)),
      ];
    }));
    bars.setAttribute("aria-label", t("Lengths of the digit capsules; {best} is the longest", { best }));
    captions.image.textContent = t("{side} × {side} pixels", { side: image.length });
    captions.features.textContent = t("the {shown} strongest of {count} maps, {side} × {side}", { shown: features.length, count, side });
    captions.primary.textContent = t("{rows} × {columns} positions × {types} types; lengths {short} (faint) to {long} (strong)",
      { rows, columns, types: primary.length, short: short.toFixed(2), long: long.toFixed(2) });
    captions.routing.textContent = t("{capsules} × {classes} votes, {iterations} iterations; one map per digit",
      { capsules, classes: lengths.length, iterations: couplings.length });
    captions.classes.textContent = t("{classes} capsules of {numbers} numbers; bars: length", { classes: lengths.length, numbers: response.pose.length });
    captions.decoder.textContent = t("draws the longest, {best}", { best });
  }

  return { element, show };
}

// The couplings of a drawing: one map per digit, for each routing iteration, and what one primary capsule sees.

import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { color, css, onTheme } from "../core/palette.js";
import { DOUBLE_FRAME, ink, paint } from "./canvas_image.js";
import { capsuleNumber } from "./capsule_number.js";
import { createColorBar } from "./color_bar.js";
import { createHeatmap } from "./heatmap.js";
import { createPlayer } from "./player.js";

const GRID = 6; // positions along each side
const LEAST_SCALE = 1.1; // equal shares of which the largest has the full color, so that rounding has none
const SIZE = 336; // pixels of the picture that shows a field

// start: the iteration that is shown first, from 1, or null for the last; onIteration(index, count) when it changes;
// onPoint({ row, column, type }) while the pointer is over a position, onPoint(null) when it leaves the maps
export function createCouplingMaps({ start, onIteration, onPoint }) {
  const maps = Array.from({ length: 10 }, (_, digit) => createHeatmap(t("Positions that send to {digit}", { digit }), GRID,
    (row, column) => capsule && onPoint({ ...capsule, row, column })));
  const figures = maps.map((map, digit) => h("figure", {}, map.element, h("figcaption", {}, String(digit))));
  const player = createPlayer({ label: t("Routing iteration"), onChange: draw });
  player.element.dataset.tour = "couplings"; // the tour moves it
  const text = h("p", { class: "soft small" });
  const bar = createColorBar({ label: t("Times an equal share"), kind: "above", paper: true });
  const field = h("canvas", { class: "picture", width: SIZE, height: SIZE, role: "img", "aria-label": t("What this capsule sees") });
  const fieldText = h("figcaption", {});
  const element = h("div", { class: "couplings" },
    h("div", { class: "row between" }, text, player.element),
    h("div", { class: "coupling-grid" },
      h("figure", { class: "field" }, field, fieldText), h("div", { class: "maps-column" }, h("div", { class: "maps", onpointerleave: (event) => event.pointerType === "mouse" && capsule && onPoint(null) }, figures),
        h("p", { class: "bar-line soft small" }, bar.element, t("how many times an equal share a position sends to the digit, the mean over its types")))));
  let image = null;
  let response = null;
  let ratios = null; // [iteration][digit][row][column]: what is sent, in multiples of an equal share
  let shades = null; // the same from 0 for an equal share or less to 1 for the largest
  let capsule = null; // the primary capsule whose field is shown

  function draw(iteration) {
    if (!response) return;
    onIteration(iteration, shades.length);
    shades[iteration].forEach((grid, digit) => maps[digit].draw(image, grid, response.field_centers));
    text.textContent = iteration === 0 ? t("Iteration 1: every position sends the same share to all digits.")
      : t("Colored squares send this digit more than an equal share. A square is the mean over the {types} primary capsules at its position, weighted by their lengths. The maps show only the middle of the image.",
        { types: response.primary.length });
    figures.forEach((figure, digit) => figure.classList.toggle("marked", digit === response.best));
  }

  // The drawing, the squares of all positions, and with double frames the square of the chosen capsule and its field.
  function mark(next) {
    capsule = next;
    const { first, step, size } = response.field_centers;
    const scale = SIZE / image.length;
    const context = field.getContext("2d");
    paint(context, ink(image), [0, 0, SIZE, SIZE]);
    const square = (at, width) => [(at - width / 2 + 0.5) * scale, width * scale];
    const box = (y, x, width) => {
      const [[top, side], [left]] = [square(first + y * step, width), square(first + x * step, width)];
      context.strokeRect(left, top, side, side);
    };
    context.lineWidth = 1;
    context.strokeStyle = css(color("edge"));
    for (let y = 0; y < GRID; y += 1) for (let x = 0; x < GRID; x += 1) box(y, x, step);
    for (const [name, width] of DOUBLE_FRAME) {
      context.lineWidth = width;
      context.strokeStyle = css(color(name));
      box(capsule.row, capsule.column, step);
      box(capsule.row, capsule.column, size);
    }
    fieldText.textContent = t("Double frames: the position of primary capsule {number}, and the {size} × {size} pixels that it sees. Point at a map to see another.", { number: capsuleNumber(capsule, response), size });
  }

  onTheme(() => response && mark(capsule));
  return {
    element,
    stop: player.stop,
    mark,
    show(pixels, next) { // returns the shades of the last iteration, and the ratio that has the full color
      const opening = response === null;
      [image, response] = [pixels, next];
      const [equal] = response.couplings; // of the first iteration
      ratios = mapCells(response.couplings, (value, digit, y, x) => value / (equal[digit][y][x] || value || 1));
      const largest = Math.max(LEAST_SCALE, ...ratios.flat(3));
      shades = mapCells(ratios, (ratio) => Math.max(0, (ratio - 1) / (largest - 1)));
      bar.show("≤ 1 ×", `${largest.toFixed(1)} ×`);
      player.load(response.couplings.length, opening ? Math.round(start ?? response.couplings.length) - 1 : player.index);
      mark(response.capsule);
      return { shades: shades.at(-1), largest };
    },
  };
}

// [iteration][digit][row][column]
function mapCells(steps, change) {
  return steps.map((grids) => grids.map((grid, digit) => grid.map((row, y) => row.map((value, x) => change(value, digit, y, x)))));
}

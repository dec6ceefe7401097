// The couplings of a drawing: one map per digit, for each routing iteration, and what one position sees.

import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { color, css, onTheme } from "../core/palette.js";
import { ink, paint } from "./canvas_image.js";
import { createHeatmap } from "./heatmap.js";
import { createPlayer } from "./player.js";

const GRID = 6; // positions along each side
const SIZE = 336; // pixels of the picture that shows a field

// start: the iteration that is shown first, from 1, or null for the last; onIteration(iteration or null) when it changes
export function createCouplingMaps({ start, onIteration }) {
  const maps = Array.from({ length: 10 }, (_, digit) => createHeatmap(t("Positions that send to {digit}", { digit }), GRID, showField));
  const figures = maps.map((map, digit) => h("figure", {}, map.element, h("figcaption", {}, String(digit))));
  const player = createPlayer({ label: t("Routing iteration"), onChange: draw });
  player.element.dataset.tour = "couplings"; // the tour moves it
  const text = h("p", { class: "soft small" });
  const field = h("canvas", { class: "picture", width: SIZE, height: SIZE, role: "img", "aria-label": t("What one position sees") });
  const fieldText = h("figcaption", {});
  const element = h("div", { class: "couplings" },
    h("div", { class: "row between" }, text, player.element),
    h("div", { class: "coupling-grid" },
      h("figure", { class: "field" }, field, fieldText), h("div", { class: "maps" }, figures)));
  let image = null;
  let response = null;
  let changes = null;
  let position = [0, 0];

  function draw(iteration) {
    if (!response) return;
    onIteration(iteration === changes.length - 1 ? null : iteration + 1);
    changes[iteration].forEach((grid, digit) => maps[digit].draw(image, grid, response.field_centers));
    text.textContent = iteration === 0 ? t("Iteration 1: every position sends the same share to all digits.")
      : t("Purple squares send this digit more than an equal share, green ones less; at most {ratio} times an equal share. A square is the mean over the {types} capsules at its position, weighted by their lengths: one capsule may send more. The maps show only the middle of the image.",
        { ratio: largestRatio(response.couplings[iteration], response.couplings[0]), types: response.primary.length });
    figures.forEach((figure, digit) => figure.classList.toggle("marked", digit === response.best));
  }

  // The drawing, the squares of all positions, and the field of one of them.
  function showField(row, column) {
    position = [row, column];
    if (!response) return;
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
    context.lineWidth = 4;
    context.strokeStyle = css(color("ink"));
    box(row, column, step);
    box(row, column, size);
    fieldText.textContent = t("The {grid} × {grid} squares are the positions. Each sees {size} × {size} pixels around it. Point at a map.", { grid: GRID, size });
  }

  onTheme(() => showField(...position));
  return {
    element,
    stop: player.stop,
    show(pixels, next) { // returns the changes of the last iteration
      const opening = response === null;
      [image, response] = [pixels, next];
      changes = relativeChanges(response.couplings);
      player.load(response.couplings.length, opening ? Math.round(start ?? response.couplings.length) - 1 : player.index);
      showField(...(opening ? largestChange(changes.at(-1)[response.best]) : position));
      return changes.at(-1);
    },
  };
}

function largestChange(grid) {
  const flat = grid.flat().map(Math.abs);
  const index = flat.indexOf(Math.max(...flat));
  return [Math.floor(index / GRID), index % GRID];
}

// The change of each coupling [iteration][digit][row][column] since the first iteration; the largest is scaled to ±1.
function relativeChanges(couplings) {
  const changes = couplings.map((step) => compare(step, couplings[0], (value, equal) => value - equal));
  const largest = Math.max(...changes.flat(3).map(Math.abs), 1e-9);
  return changes.map((step) => step.map((grid) => grid.map((row) => row.map((value) => value / largest))));
}

function largestRatio(step, first) {
  return Math.max(...compare(step, first, (value, equal) => (equal > 0 ? value / equal : 1)).flat(2)).toFixed(1);
}

function compare(step, first, difference) {
  return step.map((grid, digit) => grid.map((row, y) => row.map((value, x) => difference(value, first[digit][y][x]))));
}

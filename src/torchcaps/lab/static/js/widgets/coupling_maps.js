// The couplings of a drawing: one heatmap per digit, for each routing iteration.

import { h } from "../core/dom.js";
import { createHeatmap } from "./heatmap.js";
import { createPlayer } from "./player.js";

const FIRST = "In the first iteration every part sends the same share to all digits, so the maps are empty. "
  + "Step forward to see how the shares change.";

function laterIterations(ratio) {
  return "Orange: the parts here send this digit more than an equal share, because their votes agree with it; "
    + `blue: less. The differences are small and amplified: at most ${ratio} times an equal share.`;
}

export function createCouplingMaps() {
  const maps = Array.from({ length: 10 }, (_, digit) => createHeatmap(`Positions that send to ${digit}`));
  const figures = maps.map((map, digit) => h("figure", {}, map.element, h("figcaption", {}, String(digit))));
  const player = createPlayer({ label: "Routing iteration", onChange: draw });
  const text = h("p", { class: "soft small" });
  const element = h("div", { class: "couplings" },
    h("div", { class: "row between" }, text, player.element),
    h("div", { class: "maps" }, figures));
  let image = null;
  let response = null;
  let changes = null;

  function draw(iteration) {
    if (!response) return;
    changes[iteration].forEach((grid, digit) => maps[digit].draw(image, grid, response.field_centers));
    text.textContent = iteration === 0 ? FIRST : laterIterations(largestRatio(response.couplings));
    figures.forEach((figure, digit) => figure.classList.toggle("marked", digit === response.best));
  }

  return {
    element,
    stop: player.stop,
    show(pixels, next) {
      const first = response === null;
      [image, response] = [pixels, next];
      changes = relativeChanges(response.couplings);
      player.load(response.couplings.length, first ? response.couplings.length - 1 : player.index);
    },
  };
}

// The change of each coupling [iteration][digit][row][column] since the first iteration; the largest is scaled to ±1.
function relativeChanges(couplings) {
  const changes = compareWithFirst(couplings, (value, equal) => value - equal);
  const largest = Math.max(...changes.flat(3).map(Math.abs), 1e-9);
  return changes.map((step) => step.map((grid) => grid.map((row) => row.map((value) => value / largest))));
}

function largestRatio(couplings) {
  const ratios = compareWithFirst(couplings, (value, equal) => (equal > 0 ? value / equal : 1));
  return Math.max(...ratios.flat(3)).toFixed(1);
}

function compareWithFirst(couplings, compare) {
  return couplings.map((step) => step.map((grid, digit) =>
    grid.map((row, y) => row.map((value, x) => compare(value, couplings[0][digit][y][x])))));
}

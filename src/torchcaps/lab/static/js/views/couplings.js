// The lower half of Draw: one heat map per digit, iteration by iteration.

import { createHeatmap } from "../heatmap.js";
import { createPlayer } from "../player.js";
import { h } from "../dom.js";

export function createCouplings() {
  const maps = Array.from({ length: 10 }, (_, digit) => createHeatmap(`Places that send to ${digit}`));
  const cells = maps.map((map, digit) => h("figure", {}, map.element, h("figcaption", {}, String(digit))));
  const player = createPlayer({ label: "Routing iteration", onChange: draw });
  const words = h("p", { class: "soft small" });
  const element = h("div", { class: "couplings" },
    h("div", { class: "row between" },
      words, player.element),
    h("div", { class: "maps" }, cells));
  let image = null;
  let answer = null;
  let leans = null;

  function draw(iteration) {
    if (!answer) return;
    leans[iteration].forEach((grid, digit) => maps[digit].draw(image, grid, answer.field_centers));
    words.textContent = iteration === 0
      ? "At first every part gives all digits an even share, so the maps are blank. Step on to see whom it prefers."
      : "Orange: parts here give this digit more than an even share, since the others agree with them; blue: less. "
        + `The lean is small and magnified: at most ${strongest(answer.couplings)} times an even share.`;
    cells.forEach((cell, digit) => cell.classList.toggle("loud", digit === answer.best));
  }

  return {
    element,
    stop: player.stop,
    show(pixels, reading) {
      const first = answer === null;
      [image, answer] = [pixels, reading];
      leans = fromEven(answer.couplings);
      player.load(answer.couplings.length, first ? answer.couplings.length - 1 : player.index);
    },
  };
}

// How far each coupling [iteration][digit][row][column] has left its first, even value; the farthest is ±1.
function fromEven(couplings) {
  const leans = each(couplings, (value, even) => value - even);
  const most = Math.max(...leans.flat(3).map(Math.abs), 1e-9);
  return leans.map((step) => step.map((grid) => grid.map((row) => row.map((value) => value / most))));
}

function strongest(couplings) {
  return Math.max(...each(couplings, (value, even) => (even > 0 ? value / even : 1)).flat(3)).toFixed(1);
}

function each(couplings, combine) {
  return couplings.map((step) => step.map((grid, digit) => grid.map((row, y) => row.map((value, x) => combine(value, couplings[0][digit][y][x])))));
}

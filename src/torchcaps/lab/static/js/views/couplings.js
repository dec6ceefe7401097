// The lower half of Draw: one heat map per digit, iteration by iteration.

import { createHeatmap } from "../heatmap.js";
import { createPlayer } from "../player.js";
import { h } from "../dom.js";

export function createCouplings() {
  const maps = Array.from({ length: 10 }, (_, digit) => createHeatmap(`Places that send to ${digit}`));
  const cells = maps.map((map, digit) => h("figure", {}, map.element, h("figcaption", {}, String(digit))));
  const player = createPlayer({ label: "Routing iteration", onChange: draw });
  const element = h("div", { class: "couplings" },
    h("div", { class: "row between" },
      h("p", { class: "soft small" },
        "At first every part spreads its vote evenly. With each iteration it leans to the digit whose other parts "
        + "agree with it, until the heat gathers in one map."),
      player.element),
    h("div", { class: "maps" }, cells));
  let image = null;
  let answer = null;

  function draw(iteration) {
    if (!answer) return;
    answer.couplings[iteration].forEach((grid, digit) => maps[digit].draw(image, grid, answer.places));
    cells.forEach((cell, digit) => cell.classList.toggle("loud", digit === answer.best));
  }

  return {
    element,
    stop: player.stop,
    show(pixels, reading) {
      const first = answer === null;
      [image, answer] = [pixels, reading];
      player.load(answer.couplings.length, first ? answer.couplings.length - 1 : player.index);
    },
  };
}

// Distances of the votes to the mean of their class: one histogram per class, all on the same scale.

import { category } from "../core/palette.js";
import { h, svg } from "../core/dom.js";

const WIDTH = 300;
const HEIGHT = 64;

export function createHistograms(label) {
  const element = h("div", { class: "histograms", role: "group", "aria-label": label });
  let rows = [];
  let highest = 1;

  function load(classes, iterations) {
    const all = iterations.flatMap(({ histogram }) => Object.values(histogram.counts).flat());
    highest = Math.max(...all, 1e-9);
    rows = classes.map((name) => {
      const bars = svg("g", { fill: category(name) });
      const picture = svg("svg", {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
        "aria-label": `Distances of the votes for ${name}`,
      }, bars);
      const row = h("div", { class: "histogram" }, h("b", {}, String(name)), picture);
      row.firstChild.style.color = category(name);
      return { name, bars, row };
    });
    const axis = h("div", { class: "histogram axis" }, h("span"),
      h("p", {}, h("span", {}, "0: at the mean"), h("span", {}, "far away")));
    element.replaceChildren(...rows.map(({ row }) => row), axis);
  }

  function show({ histogram }) {
    for (const { name, bars } of rows) {
      const counts = histogram.counts[name] ?? [];
      const width = WIDTH / (counts.length || 1);
      bars.replaceChildren(...counts.map((count, index) => {
        const height = Math.sqrt(count / highest) * HEIGHT;
        return svg("rect", { x: index * width + 0.75, y: HEIGHT - height, width: Math.max(1, width - 1.5), height });
      }));
    }
  }

  return { element, load, show };
}

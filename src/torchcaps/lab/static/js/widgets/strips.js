// One row of dots per class, on a numbered axis: how well each vote agrees. Larger dots have larger couplings.

import { numberText, ticks } from "../core/scale.js";
import { svg } from "../core/dom.js";
import { t } from "../core/i18n.js";

const [MIN_WIDTH, MAX_WIDTH] = [340, 640];
const ROW = 104;
const [LEFT, RIGHT, BOTTOM] = [40, 16, 46];

export function createStrips(label) {
  const element = svg("svg", { class: "strips", role: "img", "aria-label": label });
  let rows = [];
  let x = () => 0;
  let limit = 0; // labels of means beyond it are on the left of their line

  // All iterations have the same axis.
  function load({ shown, measure, iterations }) {
    const all = iterations.flatMap((step) => step.agreements.flat());
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const span = high - low || 1;
    // On a narrow screen the plot is narrower, so that its text is not smaller.
    const width = Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, element.parentElement?.clientWidth || MAX_WIDTH));
    const floor = shown.length * ROW;
    const height = floor + BOTTOM;
    limit = width * 0.75;
    x = (value) => LEFT + Math.max(0, Math.min(1, (value - low) / span)) * (width - LEFT - RIGHT);
    const axis = svg("g", { class: "grid" }, ...ticks(low, high, width > 500 ? 8 : 5).flatMap((value) => [
      svg("line", { x1: x(value), x2: x(value), y1: 8, y2: floor }),
      svg("text", { x: x(value), y: floor + 18, "text-anchor": "middle" }, numberText(value)),
    ]), svg("text", { x: width - RIGHT, y: floor + 38, "text-anchor": "end", class: "axis-title" }, t("{measure} of vote and capsule →", { measure })));
    rows = shown.map((digit, index) => {
      const count = iterations[0].agreements[index].length;
      const dots = Array.from({ length: count }, (_, child) => svg("circle", { cy: index * ROW + 18 + spread(child) * (ROW - 34) },
        svg("title", {})));
      const mean = svg("g", { class: "mean" }, svg("line", { y1: index * ROW + 10, y2: (index + 1) * ROW - 8 }),
        svg("text", { y: index * ROW + 20, x: 6 }));
      return { digit, dots, mean, element: svg("g", { class: index ? "strip" : "strip best" },
        svg("text", { class: "name", x: 8, y: index * ROW + ROW / 2 + 8 }, String(digit)), svg("g", { class: "dots" }, ...dots), mean) };
    });
    element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    element.replaceChildren(axis, ...rows.map((row) => row.element));
  }

  function show({ agreements, couplings, agreement }) {
    rows.forEach(({ digit, dots, mean }, index) => {
      dots.forEach((dot, child) => {
        const [value, coupling] = [agreements[index][child], couplings[index][child]];
        dot.setAttribute("cx", x(value));
        dot.setAttribute("r", 1.4 + 6.5 * Math.sqrt(coupling));
        dot.firstChild.textContent = `part ${child + 1}: agreement ${numberText(value, 3)}, coupling ${coupling.toFixed(3)}`;
      });
      mean.style.transform = `translateX(${x(agreement[digit])}px)`;
      mean.lastChild.textContent = t("mean {value}", { value: numberText(agreement[digit], 3) });
      const right = x(agreement[digit]) > limit;
      mean.lastChild.setAttribute("text-anchor", right ? "end" : "start");
      mean.lastChild.setAttribute("x", right ? -6 : 6);
    });
  }

  return { element, load, show };
}

// Where a dot stands across its row: neighbors are far apart, and a dot keeps its place.
function spread(child) {
  return (child * 0.6180339887) % 1;
}

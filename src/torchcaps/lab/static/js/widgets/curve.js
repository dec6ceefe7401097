// A line of one number per iteration, with numbered axes.

import { numberText, ticks } from "../core/scale.js";
import { h, svg } from "../core/dom.js";

const [MIN_WIDTH, MAX_WIDTH, HEIGHT] = [340, 720, 120];
const [LEFT, RIGHT, TOP, BOTTOM] = [48, 12, 10, 24];

export function createCurve(title) {
  const grid = svg("g", { class: "grid" });
  const line = svg("polyline", {});
  const dot = svg("circle", { r: 5 });
  const picture = svg("svg", { class: "curve", role: "img", "aria-label": title }, grid, line, dot);
  const element = h("figure", {}, h("figcaption", { class: "axis-title" }, title), picture);

  // values: numbers, or null if there are none; index: the marked one
  function show(values, index) {
    element.hidden = values.length < 2 || values.some((value) => value === null);
    if (element.hidden) return;
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const width = Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, element.clientWidth || MAX_WIDTH));
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const span = high - low || 1;
    const x = (step) => LEFT + (step / (values.length - 1)) * (width - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - ((value - low) / span) * (HEIGHT - TOP - BOTTOM);
    grid.replaceChildren(
      ...ticks(low, high, 3).flatMap((value) => [
        svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, numberText(value)),
      ]),
      ...ticks(1, values.length, 6).filter(Number.isInteger).map((step) =>
        svg("text", { x: x(step - 1), y: HEIGHT - 6, "text-anchor": "middle" }, String(step))),
    );
    line.setAttribute("points", values.map((value, step) => `${x(step)},${y(value)}`).join(" "));
    const at = Math.min(index, values.length - 1);
    dot.setAttribute("cx", x(at));
    dot.setAttribute("cy", y(values[at]));
  }

  return { element, show };
}

// One row of dots per class, on a numbered axis: how well each vote agrees. Larger dots have larger couplings.

import { numberText, ticks } from "../core/scale.js";
import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";

const [MIN_WIDTH, FIRST_WIDTH] = [260, 640]; // FIRST_WIDTH until the page has measured it
const ROW = 116;
const [LEFT, RIGHT, BOTTOM] = [40, 16, 46];

export function createStrips(label) {
  const picture = svg("svg", { class: "strips", role: "img", "aria-label": label });
  const note = h("p", { class: "soft small" });
  const element = h("div", {}, picture, note);
  let response = null;
  let step = null;
  let rows = [];
  let limits = [0, 1];
  let x = () => 0;
  let limit = 0; // labels of means beyond it are on the left of their line

  // { shown, measure, iterations } of a response, and whether the measure has a lower bound
  function load(next) {
    response = next;
    step = null;
    layOut();
  }

  // All iterations have the same axis.
  function layOut() {
    const { shown, measure, iterations, bounded } = response;
    limits = axisOf(iterations, bounded);
    const [low, high] = limits;
    const width = Math.max(MIN_WIDTH, element.clientWidth || FIRST_WIDTH);
    const floor = shown.length * ROW;
    const height = floor + BOTTOM;
    limit = width * 0.75;
    x = (value) => LEFT + Math.max(0, Math.min(1, (value - low) / (high - low || 1))) * (width - LEFT - RIGHT);
    const axis = svg("g", { class: "grid" }, ...ticks(low, high, width > 500 ? 8 : 5).flatMap((value) => [
      svg("line", { x1: x(value), x2: x(value), y1: 8, y2: floor }),
      svg("text", { x: x(value), y: floor + 18, "text-anchor": "middle" }, numberText(value)),
    ]), svg("text", { x: width - RIGHT, y: floor + 38, "text-anchor": "end", class: "axis-title" }, t(bounded ? "{measure} of vote and capsule →" : "{measure} of the vote under the capsule →", { measure })));
    rows = shown.map((digit, index) => {
      const count = iterations[0].agreements[index].length;
      const dots = Array.from({ length: count }, (_, child) => svg("circle", { cy: index * ROW + 26 + spread(child) * (ROW - 42) },
        svg("title", {})));
      const mean = svg("g", { class: "mean" }, svg("line", { y1: index * ROW + 8, y2: (index + 1) * ROW - 8 }),
        svg("text", { y: index * ROW + 16, x: 6 }));
      return { digit, dots, mean, element: svg("g", { class: index ? "strip" : "strip best" },
        svg("text", { class: "name", x: 8, y: index * ROW + ROW / 2 + 8 }, String(digit)), svg("g", { class: "dots" }, ...dots), mean) };
    });
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren(axis, ...rows.map((row) => row.element));
  }

  function show(next) {
    step = next;
    const { agreements, couplings, agreement } = step;
    rows.forEach(({ digit, dots, mean }, index) => {
      dots.forEach((dot, child) => {
        const [value, coupling] = [agreements[index][child], couplings[index][child]];
        dot.setAttribute("cx", x(value));
        dot.setAttribute("r", 1.4 + 6.5 * Math.sqrt(coupling));
        dot.firstChild.textContent = t("part {part}: {measure} {value}, coupling {coupling}", {
          part: child + 1, measure: response.measure, value: numberText(value, 3), coupling: coupling.toFixed(3),
        });
      });
      mean.style.transform = `translateX(${x(agreement[digit])}px)`;
      mean.lastChild.textContent = t("mean {value}", { value: numberText(agreement[digit], 3) });
      const right = x(agreement[digit]) > limit;
      mean.lastChild.setAttribute("text-anchor", right ? "end" : "start");
      mean.lastChild.setAttribute("x", right ? -6 : 6);
    });
    const beyond = agreements.flat().filter((value) => value < limits[0]).length;
    note.hidden = beyond === 0;
    note.textContent = t("{count} votes are below {low}: their dots are at the left edge.", { count: beyond, low: numberText(limits[0], 0) });
  }

  // As wide as its box, so that texts have their own size.
  new ResizeObserver(() => {
    if (!response) return;
    const shown = step;
    layOut();
    if (shown) show(shown);
  }).observe(element);

  return { element, load, show };
}

// From the lowest to the highest value. A log density has no lower bound: there the few votes that are very low do not
// count, because nothing else could be told apart.
function axisOf(iterations, bounded) {
  const all = iterations.flatMap((each) => each.agreements.flat()).sort((one, two) => one - two);
  const [low, third, high] = [all[0], all[Math.floor(all.length / 3)], all[all.length - 1]];
  return [bounded ? low : Math.max(low, third - (high - third)), high];
}

// Where a dot stands across its row: neighbors are far apart, and a dot keeps its place.
function spread(child) {
  return (child * 0.6180339887) % 1;
}

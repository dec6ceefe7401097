// Lines over a common axis, with numbered axes, a legend, marks, and the values under the pointer.

import { numberText, ticks } from "../core/scale.js";
import { h, svg } from "../core/dom.js";

const [MIN_WIDTH, FIRST_WIDTH] = [260, 600]; // FIRST_WIDTH until the page has measured it
const [MIN_LEFT, RIGHT, TOP, BOTTOM] = [46, 14, 22, 42];
const MIN_SPAN = 0.05; // of the largest value: a range that is smaller would have no ticks, or ones with many digits
const KEY = 36; // pixels of the line in a legend: one period of each pattern of dashes, or more
const DIGIT = 8; // pixels, about the width of a digit, or of a letter in bold

// y: [low, high], or null for the range of the values; xTicks: the numbers of the axis, or null for round ones.
// onPick(index), if given: a click or a drag on the chart chooses the nearest value.
export function createLineChart({ label, xTitle, y: limits = null, xTicks = null, height = 200, format = numberText, onPick = null }) {
  const grid = svg("g", { class: "grid" });
  const drawn = svg("g", { class: "lines" });
  const marked = svg("g", { class: "marks" });
  const guide = svg("line", { class: "guide", y1: TOP, y2: height - BOTTOM });
  const picture = svg("svg", { class: "line-chart", role: "img", "aria-label": label }, grid, marked, guide, drawn);
  const legend = h("p", { class: "line-legend" });
  const readout = h("p", { class: "readout", "aria-hidden": "true" });
  const element = h("figure", { class: onPick ? "line-figure pickable" : "line-figure" }, legend, picture, readout);
  let data = null;
  let place = null; // { x, xs }: the scale, and where the values stand
  let hovered = null;

  // x: numbers; lines: [{ name, values, kind, band: [[low, high], …] or none }]; marks: [{ x, text, kind }];
  // at: the index of the current value; describe(index) -> the text of the values.
  function show(next) {
    data = next;
    draw();
  }

  function draw() {
    const { x: numbers, lines, marks = [], at } = data;
    const width = Math.max(MIN_WIDTH, element.clientWidth || FIRST_WIDTH);
    const all = lines.flatMap(({ values, band }) => [...values, ...(band ?? []).flat()]);
    const [low, high] = limits ?? roundRange(rangeOf(all));
    const [first, last] = [numbers[0], numbers[numbers.length - 1]];
    const left = Math.max(MIN_LEFT, 14 + DIGIT * Math.max(...ticks(low, high, 4).map((value) => format(value).length)));
    const x = (value) => left + ((value - first) / (last - first || 1)) * (width - left - RIGHT);
    const y = (value) => height - BOTTOM - ((value - low) / (high - low || 1)) * (height - TOP - BOTTOM);
    const whole = numbers.every(Number.isInteger); // then ticks between them would mean nothing
    place = { width, xs: numbers.map(x) };
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    grid.replaceChildren(
      ...ticks(low, high, 4).flatMap((value) => [
        svg("line", { x1: left, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)),
      ]),
      ...(xTicks ?? withFirst(ticks(first, last, width > 500 ? 10 : 6).filter((value) => !whole || Number.isInteger(value)), first)).flatMap((value) => [
        svg("line", { x1: x(value), x2: x(value), y1: height - BOTTOM, y2: height - BOTTOM + 5 }),
        svg("text", { x: x(value), y: height - BOTTOM + 19, "text-anchor": "middle" }, numberText(value)),
      ]),
      svg("text", { x: width - RIGHT, y: height - 5, "text-anchor": "end", class: "axis-name" }, `${xTitle} →`),
    );
    marked.replaceChildren(...marks.flatMap((mark) => {
      const before = x(mark.x) > width * 0.7;
      const latest = width - RIGHT - DIGIT * (mark.text ?? "").length; // a text that starts later would be cut off
      return [
        svg("line", { x1: x(mark.x), x2: x(mark.x), y1: TOP - 4, y2: height - BOTTOM, class: mark.kind ?? "" }),
        svg("text", { x: before ? x(mark.x) - 5 : Math.min(x(mark.x) + 5, latest), y: TOP - 7, "text-anchor": before ? "end" : "start" }, mark.text ?? ""),
      ];
    }));
    drawn.replaceChildren(...lines.flatMap(({ values, kind, band }) => [
      ...(band ? [svg("path", { class: `band ${kind}`, d: outline(band, numbers, x, y) })] : []),
      svg("polyline", { class: kind, points: values.map((value, index) => `${x(numbers[index])},${y(value)}`).join(" ") }),
      svg("circle", { class: kind, r: 5, cx: x(numbers[at]), cy: y(values[at]) }),
    ]));
    legend.replaceChildren(...lines.map(({ name, kind }) => h("span", { class: "line-key" },
      svg("svg", { width: KEY, height: 4, "aria-hidden": "true" }, svg("polyline", { class: kind, points: `0,2 ${KEY},2` })), name)));
    refresh();
  }

  function refresh() {
    const index = hovered ?? data.at;
    guide.setAttribute("x1", place.xs[index]);
    guide.setAttribute("x2", place.xs[index]);
    readout.textContent = data.describe(index);
  }

  function nearest(event) {
    const box = picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * place.width;
    const distances = place.xs.map((value) => Math.abs(value - at));
    return distances.indexOf(Math.min(...distances));
  }

  picture.addEventListener("pointermove", (event) => {
    if (!data) return;
    hovered = nearest(event);
    if (onPick && event.buttons) onPick(hovered);
    refresh();
  });
  picture.addEventListener("pointerleave", () => {
    hovered = null;
    if (data) refresh();
  });
  // As wide as its box, so that texts have their own size.
  new ResizeObserver(() => data && draw()).observe(element);
  if (onPick) picture.addEventListener("pointerdown", (event) => data && event.button === 0 && onPick(nearest(event)));

  return { element, show };
}

// From the lowest to the highest value; around values that are almost equal there is room.
function rangeOf(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const span = MIN_SPAN * Math.max(Math.abs(low), Math.abs(high)) || 1;
  const room = Math.max(0, (span - (high - low)) / 2);
  return [low - room, high + room];
}

// From one tick to another, so that each value lies between two numbers of the axis.
function roundRange([low, high]) {
  const [one, two] = ticks(low, high, 4);
  const step = two - one;
  return step > 0 ? [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step] : [low, high];
}

// With a number at the first value, unless one is close to it.
function withFirst(numbers, first) {
  const step = numbers[1] - numbers[0];
  return numbers[0] - first > 0.4 * step ? [first, ...numbers] : numbers;
}

function outline(band, numbers, x, y) {
  const lower = band.map(([low], index) => `${x(numbers[index])} ${y(low)}`);
  const upper = band.map(([, high], index) => `${x(numbers[index])} ${y(high)}`).reverse();
  return `M${[...lower, ...upper].join("L")}Z`;
}

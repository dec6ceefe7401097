// Lines and dots over a numbered axis, with the values under the pointer. New data move the axes smoothly; nothing is
// built again but the ticks.

import { h, svg } from "../core/dom.js";
import { numberText, ticks } from "../core/scale.js";

const HEIGHT = 190;
const [LEFT, RIGHT, TOP, BOTTOM] = [56, 14, 12, 40];
const [MIN_WIDTH, MOVE_TIME] = [280, 250]; // pixels, milliseconds
const MAX_POINTS = 600; // of a line; longer ones are thinned out

let count = 0;

// series: [{ name, kind: "line" or "dots" }]; at most five, which differ in color; the first three also in their dashes.
// format(value) writes values of y under the pointer; zero: whether the axis of y starts at 0, as that of x does.
export function createChart({ title, xTitle, unit = "", series, format = (value) => numberText(value), zero = false }) {
  count += 1;
  const clip = `chart-clip-${count}`;
  const grid = svg("g", { class: "grid" });
  const window = svg("rect", { x: LEFT, y: TOP, height: HEIGHT - TOP - BOTTOM });
  const lines = series.map((_, index) => svg("path", { class: `line s${index}` }));
  const cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
  const marks = series.map((_, index) => svg("path", { class: `mark s${index}`, d: MARKS[index % MARKS.length], visibility: "hidden" }));
  const picture = svg("svg", { class: "chart", role: "img", tabindex: 0, height: HEIGHT },
    svg("clipPath", { id: clip }, window), grid, svg("g", { "clip-path": `url(#${clip})` }, lines), cursor, marks);
  const readout = h("p", { class: "chart-readout" });
  const keys = series.map((_, index) => svg("path", { class: `line s${index}` }));
  const legend = h("p", { class: "chart-legend" }, series.map(({ name }, index) =>
    h("span", {}, svg("svg", { viewBox: "0 -6 28 12", "aria-hidden": "true" }, keys[index]), name)));
  const heading = h("h3", {}, title, unit ? h("span", { class: "soft" }, ` ${unit}`) : null);
  const element = h("figure", { class: "chart-box" }, heading, series.length > 1 ? legend : null, picture, readout);
  let data = series.map(() => []);
  let shown = null; // [low x, high x, low y, high y]
  let frame = null;
  let at = null; // the value of x under the cursor
  let width = 600;

  const x = (value) => LEFT + ((value - shown[0]) / (shown[1] - shown[0])) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - shown[2]) / (shown[3] - shown[2])) * (HEIGHT - TOP - BOTTOM);

  function limits() {
    const all = data.flat();
    if (!all.length) return null;
    const [low, high] = extent(all.map((point) => point[1]));
    const [first, last] = extent(all.map((point) => point[0]));
    const bottom = zero ? Math.min(0, low) : low;
    const room = (high - bottom || Math.abs(high) || 1) * 0.06;
    return [Math.min(0, first), last > Math.min(0, first) ? last : first + 1, bottom === 0 ? 0 : bottom - room, high + room];
  }

  function draw() {
    element.classList.toggle("empty", !shown);
    [...legend.children].forEach((entry, index) => { entry.hidden = !data[index].length; });
    if (!shown) return;
    picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    window.setAttribute("width", width - LEFT - RIGHT);
    grid.replaceChildren(
      ...ticks(shown[2], shown[3], 4).flatMap((value) => [
        svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, numberText(value)),
      ]),
      ...ticks(shown[0], shown[1], width > 420 ? 6 : 3).map((value) =>
        svg("text", { x: x(value), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, value.toLocaleString("en"))),
      svg("text", { x: width - RIGHT, y: HEIGHT - 4, "text-anchor": "end", class: "axis-title" }, xTitle),
    );
    series.forEach(({ kind }, index) => {
      const points = thinned(data[index]).map(([px, py]) => [x(px), y(py)]);
      const dots = kind === "dots" || points.length === 1;
      const path = dots ? points.map(([px, py]) => `M${px.toFixed(1)} ${py.toFixed(1)}h0`).join("")
        : points.map(([px, py], number) => `${number ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
      lines[index].setAttribute("d", path);
      keys[index].setAttribute("d", dots ? "M14 0h0" : "M0 0h28");
      for (const each of [lines[index], keys[index]]) each.classList.toggle("dots", dots);
    });
    drawCursor();
  }

  function drawCursor() {
    const values = at === null ? [] : series.map((_, index) => nearest(data[index], at));
    const some = values.find(Boolean);
    cursor.setAttribute("visibility", some ? "visible" : "hidden");
    marks.forEach((mark, index) => {
      mark.setAttribute("visibility", values[index] ? "visible" : "hidden");
      if (values[index]) mark.setAttribute("transform", `translate(${x(values[index][0])} ${y(values[index][1])})`);
    });
    if (!some) {
      const last = series.map((_, index) => data[index].at(-1));
      readout.textContent = describe(last);
      return;
    }
    cursor.setAttribute("x1", x(some[0]));
    cursor.setAttribute("x2", x(some[0]));
    readout.textContent = describe(values);
  }

  function describe(values) {
    // Series are not all measured at the same steps: each value stands behind its own step.
    const words = new Map();
    values.forEach((point, index) => {
      if (point) words.set(point[0], [...(words.get(point[0]) ?? []), `${series[index].name} ${format(point[1])}`]);
    });
    const text = [...words].map(([step, parts]) => `${xTitle} ${step.toLocaleString("en")}: ${parts.join(", ")}`).join("; ");
    picture.setAttribute("aria-label", `${title}. ${text}`);
    return text;
  }

  // Moves the axes from where they are to where the data need them.
  function move(target) {
    cancelAnimationFrame(frame);
    const from = shown;
    if (!from || !target || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      shown = target;
      draw();
      return;
    }
    const begin = performance.now();
    const tick = (now) => {
      const share = Math.max(0, Math.min(1, (now - begin) / MOVE_TIME));
      shown = target.map((value, index) => from[index] + (value - from[index]) * share);
      draw();
      if (share < 1) frame = requestAnimationFrame(tick);
    };
    tick(begin);
  }

  function place(event) {
    const box = picture.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width) * width;
    return shown[0] + ((share - LEFT) / (width - LEFT - RIGHT)) * (shown[1] - shown[0]);
  }

  picture.addEventListener("pointermove", (event) => {
    if (!shown) return;
    at = place(event);
    drawCursor();
  });
  for (const name of ["pointerleave", "blur"]) picture.addEventListener(name, () => { at = null; if (shown) drawCursor(); });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const longest = data.reduce((best, points) => (points.length > best.length ? points : best), []);
    if (!step || !longest.length) return;
    event.preventDefault();
    const now = longest.indexOf(nearest(longest, at ?? longest.at(-1)[0]));
    at = longest[Math.max(0, Math.min(longest.length - 1, now + (at === null ? 0 : step)))][0];
    drawCursor();
  });
  new ResizeObserver(() => {
    width = Math.max(MIN_WIDTH, picture.clientWidth || width);
    draw();
  }).observe(picture);

  return {
    element,
    // points: for each series a list of [x, y], x ascending
    show(points) {
      data = points;
      move(limits());
    },
  };
}

// A circle, a square, a triangle, a diamond and a cross.
const MARKS = [
  "M4 0A4 4 0 1 1 -4 0A4 4 0 1 1 4 0z", "M-3.5 -3.5h7v7h-7z", "M0 -4.6L4.4 3.2H-4.4z", "M0 -5L5 0L0 5L-5 0z",
  "M-4 -1.2h2.8v-2.8h2.4v2.8h2.8v2.4h-2.8v2.8h-2.4v-2.8h-2.8z",
];

function extent(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) [low, high] = [Math.min(low, value), Math.max(high, value)];
  return [low, high];
}

function nearest(points, value) {
  let best = null;
  for (const point of points) if (!best || Math.abs(point[0] - value) < Math.abs(best[0] - value)) best = point;
  return best;
}

// Of each group of neighbors the lowest and the highest, so that no peak is lost.
function thinned(points) {
  if (points.length <= MAX_POINTS) return points;
  const size = Math.ceil((2 * points.length) / MAX_POINTS);
  const kept = [];
  for (let start = 0; start < points.length; start += size) {
    const group = points.slice(start, start + size);
    const low = group.reduce((a, b) => (b[1] < a[1] ? b : a));
    const high = group.reduce((a, b) => (b[1] > a[1] ? b : a));
    kept.push(...(low === high ? [low] : [low, high].sort((a, b) => a[0] - b[0])));
  }
  return kept;
}

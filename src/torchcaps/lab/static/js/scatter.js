// Votes in the plane: dots that fade with their weight, rings for the means.

import { category } from "./palette.js";
import { svg } from "./dom.js";

const SIZE = 400;
const MARGIN = 26;
const LARGEST = 4.6; // a dot's radius

// The farthest votes lie beyond the axes: they are drawn at the edge.
function inside(at) {
  return Math.max(LARGEST, Math.min(SIZE - LARGEST, at));
}

// Means often coincide: then their rings lie within each other, and each name stands on another side.
function radius(index) {
  return 9 + 4 * index;
}

function beside(index) {
  const angle = ((index * 120 - 90) * Math.PI) / 180;
  const away = radius(index) + 11;
  return { x: Math.cos(angle) * away, y: Math.sin(angle) * away + 5 };
}

export function createScatter(label) {
  const dots = svg("g", { class: "dots" });
  const trails = svg("g", { class: "trails" });
  const rings = svg("g", { class: "rings" });
  const element = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "scatter", role: "img", "aria-label": label }, dots, trails, rings);
  let place = null;
  let [least, most] = [0, 1]; // weights drawn faintest and strongest

  // Axes stay fixed over the iterations, wide enough for all but the farthest votes and for every mean.
  function fit(points, means) {
    const range = (axis) => {
      const [low, high] = spread(points.map((point) => point[axis]), 0.01);
      const centers = means.map((mean) => mean[axis]);
      return [Math.min(low, ...centers), Math.max(high, ...centers)];
    };
    const [[left, right], [low, high]] = [range("x"), range("y")];
    const scale = (SIZE - 2 * MARGIN) / Math.max(right - left, high - low, 1e-6);
    place = ({ x, y }) => [SIZE / 2 + (x - (left + right) / 2) * scale, SIZE / 2 - (y - (low + high) / 2) * scale];
  }

  function load(points, iterations) {
    fit(points, iterations.flatMap((step) => step.means));
    [least, most] = spread(iterations.flatMap((step) => step.weight), 0.02);
    dots.replaceChildren(...points.map((point) => {
      const [cx, cy] = place(point).map(inside);
      return svg("circle", { cx, cy, r: 3.2, fill: category(point.class) });
    }));
    rings.replaceChildren(...iterations[0].means.map((mean, index) => svg("g", { class: "mean", "data-class": mean.class },
      svg("circle", { r: radius(index), stroke: category(mean.class) }),
      svg("text", { ...beside(index), fill: category(mean.class) }, String(mean.class)))));
    trails.replaceChildren(...iterations[0].means.map((mean, index) => svg("polyline", {
      points: iterations.map((step) => place(step.means[index]).join(",")).join(" "), stroke: category(mean.class),
    })));
  }

  function show({ means, weight }) {
    [...dots.children].forEach((dot, index) => {
      const share = Math.max(0, Math.min(1, (weight[index] - least) / Math.max(most - least, 1e-9)));
      dot.style.opacity = 0.14 + 0.76 * share;
      dot.setAttribute("r", 2.2 + (LARGEST - 2.2) * share);
    });
    [...rings.children].forEach((ring, index) => {
      const [x, y] = place(means[index]);
      ring.style.transform = `translate(${x}px, ${y}px)`;
    });
  }

  return { element, load, show };
}

// The range that leaves out a share of the values at each end.
function spread(values, out) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
  return [at(out), at(1 - out)];
}

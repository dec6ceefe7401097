// Votes in the plane: dots with an opacity by weight, and rings for the means.

import { category } from "../core/palette.js";
import { svg } from "../core/dom.js";

const SIZE = 400;
const MARGIN = 26;
const MAX_RADIUS = 4.6; // of a dot

// Votes beyond the axes are drawn at the edge.
function inside(at) {
  return Math.max(MAX_RADIUS, Math.min(SIZE - MAX_RADIUS, at));
}

// Means often coincide: so rings have different sizes, and each label is on another side.
function radius(index) {
  return 9 + 4 * index;
}

function labelOffset(index) {
  const angle = ((index * 120 - 90) * Math.PI) / 180;
  const distance = radius(index) + 11;
  return { x: Math.cos(angle) * distance, y: Math.sin(angle) * distance + 5 };
}

export function createScatter(label) {
  const dots = svg("g", { class: "dots" });
  const trails = svg("g", { class: "trails" });
  const rings = svg("g", { class: "rings" });
  const element = svg("svg", {
    viewBox: `0 0 ${SIZE} ${SIZE}`, class: "scatter", role: "img", "aria-label": label,
  }, dots, trails, rings);
  let place = null;
  let [low, high] = [0, 1]; // the weights with the lowest and the highest opacity

  // The axes are the same for all iterations, and fit every mean and all but the most distant votes.
  function fit(points, means) {
    const range = (axis) => {
      const [from, to] = quantileRange(points.map((point) => point[axis]), 0.01);
      const centers = means.map((mean) => mean[axis]);
      return [Math.min(from, ...centers), Math.max(to, ...centers)];
    };
    const [[left, right], [bottom, top]] = [range("x"), range("y")];
    const scale = (SIZE - 2 * MARGIN) / Math.max(right - left, top - bottom, 1e-6);
    place = ({ x, y }) => [SIZE / 2 + (x - (left + right) / 2) * scale, SIZE / 2 - (y - (bottom + top) / 2) * scale];
  }

  function load(points, iterations) {
    fit(points, iterations.flatMap((step) => step.means));
    [low, high] = quantileRange(iterations.flatMap((step) => step.weight), 0.02);
    dots.replaceChildren(...points.map((point) => {
      const [cx, cy] = place(point).map(inside);
      return svg("circle", { cx, cy, r: 3.2, fill: category(point.class) });
    }));
    rings.replaceChildren(...iterations[0].means.map((mean, index) => svg("g", { class: "mean", "data-class": mean.class },
      svg("circle", { r: radius(index), stroke: category(mean.class) }),
      svg("text", { ...labelOffset(index), fill: category(mean.class) }, String(mean.class)))));
    trails.replaceChildren(...iterations[0].means.map((mean, index) => svg("polyline", {
      points: iterations.map((step) => place(step.means[index]).join(",")).join(" "), stroke: category(mean.class),
    })));
  }

  function show({ means, weight }) {
    [...dots.children].forEach((dot, index) => {
      const share = Math.max(0, Math.min(1, (weight[index] - low) / Math.max(high - low, 1e-9)));
      dot.style.opacity = 0.14 + 0.76 * share;
      dot.setAttribute("r", 2.2 + (MAX_RADIUS - 2.2) * share);
    });
    [...rings.children].forEach((ring, index) => {
      const [x, y] = place(means[index]);
      ring.style.transform = `translate(${x}px, ${y}px)`;
    });
  }

  return { element, load, show };
}

// The range without a fraction of the values at each end.
function quantileRange(values, fraction) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
  return [at(fraction), at(1 - fraction)];
}

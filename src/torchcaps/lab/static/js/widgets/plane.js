// A plane with points and clusters. A click, or the arrow keys and Enter, add a point. Ellipses show one and two
// standard deviations. A point that several clusters share is a disk with a slice for each of them. Points are
// transparent, so that points over each other can be told apart.

import { svg } from "../core/dom.js";
import { category } from "../core/palette.js";
import { placeLabels } from "./plane_labels.js";

const [WIDTH, HEIGHT] = [600, 420];
const [SHARED, SLICE] = [0.05, 7]; // the smallest share that has a slice; pixels: the radius of its disk
const UNIT = 200; // pixels per unit; the origin is the middle

const STEPS = { ArrowLeft: [-0.05, 0], ArrowRight: [0.05, 0], ArrowUp: [0, 0.05], ArrowDown: [0, -0.05] };

// One shape for each cluster, because not everyone can tell the colors apart.
const SHAPES = [
  "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", // circle
  "M-4.5 -4.5h9v9h-9z", // square
  "M0 -6l5.5 10h-11z", // triangle
  "M0 -6.5l6.5 6.5l-6.5 6.5l-6.5 -6.5z", // diamond
  "M-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", // plus
  "M0 6l5.5 -10h-11z", // triangle upside down
  "M-6 -3.5h12v7h-12z", // wide
  "M-3.5 -6h7v12h-7z", // tall
];

export const SIZE = [WIDTH / UNIT, HEIGHT / UNIT]; // of the plane

// The shape and the color of a cluster's points.
export function pointMark(index) {
  return svg("path", { d: SHAPES[index], fill: category(index), stroke: category(index) });
}

function rounded(value) {
  return Number(value.toFixed(3));
}

function toScreen([x, y]) {
  return [WIDTH / 2 + x * UNIT, HEIGHT / 2 - y * UNIT];
}

// onAdd([x, y])
export function createPlane({ label, onAdd }) {
  const shapes = svg("g", { class: "ellipses" });
  const joints = svg("g", { class: "joints" });
  const dots = svg("g", { class: "points" });
  const paths = svg("g", { class: "paths" });
  const means = svg("g", { class: "means" });
  const names = svg("g", { class: "names" });
  const cursor = svg("path", { class: "aim", d: "M-12 0h24M0 -12v24" });
  const element = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plane", tabindex: 0, role: "application", "aria-label": label,
  }, shapes, joints, dots, paths, means, names, cursor);
  let position = [0, 0]; // of the keyboard cursor

  function moveCursor(next) {
    position = [Math.max(-1.45, Math.min(1.45, next[0])), Math.max(-1, Math.min(1, next[1]))];
    const [x, y] = toScreen(position);
    cursor.setAttribute("transform", `translate(${x} ${y})`);
  }

  element.addEventListener("keydown", (event) => {
    if (event.key in STEPS) moveCursor([position[0] + STEPS[event.key][0], position[1] + STEPS[event.key][1]]);
    else if (event.key === "Enter" || event.key === " ") onAdd(position.map(rounded));
    else return;
    event.preventDefault();
  });

  element.addEventListener("click", (event) => {
    const box = element.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const y = ((event.clientY - box.top) / box.height) * HEIGHT;
    onAdd([(x - WIDTH / 2) / UNIT, (HEIGHT / 2 - y) / UNIT].map(rounded));
  });

  // step: one iteration of the response, or null if there is none; labels: a text for each cluster; earlier: the
  // iterations before it
  function draw(points, step, labels = [], earlier = []) {
    const paired = step?.means[0]?.length === 4; // two points are one pose
    joints.replaceChildren(...(paired ? points.slice(0, Math.floor(points.length / 2)) : []).map((_, index) =>
      joint(points[2 * index], points[2 * index + 1], colorOf(step.assignment[2 * index]), "pair-line")));
    dots.replaceChildren(...points.map((point, index) => {
      const [x, y] = toScreen(point);
      const shares = step?.assignment[index];
      const transform = `translate(${x} ${y})`;
      const parts = (shares ?? []).filter((share) => share >= SHARED).length;
      if (parts > 1) return svg("g", { class: "shared", transform }, slices(shares));
      const fill = colorOf(shares);
      return svg("path", { d: SHAPES[shares ? shares.indexOf(Math.max(...shares)) : 0], transform, fill, stroke: fill });
    }));
    const middles = (step?.means ?? []).flatMap((mean, index) =>
      (paired ? [mean.slice(0, 2), mean.slice(2)] : [mean]).map((middle) => [middle, step.covariances[index], index]));
    paths.replaceChildren(...middles.map(([, , index], at) => {
      const from = paired ? 2 * (at % 2) : 0;
      const places = [...earlier, step].map((each) => toScreen(each.means[index].slice(from, from + 2)));
      return svg("polyline", { points: places.join(" "), stroke: category(index) });
    }));
    means.replaceChildren(
      ...middles.map(([middle]) => svg("path", { class: "halo", d: cross(middle) })),
      ...(paired ? step.means.map((mean, index) => joint(mean.slice(0, 2), mean.slice(2), category(index), "mean-line")) : []),
      ...middles.map(([middle, , index]) => svg("path", { class: "cross", d: cross(middle), stroke: category(index) })));
    const outlines = middles.flatMap(([middle, covariance]) => [1, 2].flatMap((times) => outline(middle, covariance, times)));
    const places = placeLabels(labels.map((text, index) => ({ text, at: toScreen(step.means[index]), reach: reach(step.covariances[index]) })),
      points.map(toScreen), [...outlines, ...middles.flatMap(([middle]) => aroundCross(middle))], [WIDTH, HEIGHT]);
    names.replaceChildren(...labels.map((text, index) =>
      svg("text", { x: places[index][0], y: places[index][1], "text-anchor": "middle", fill: category(index) }, text)));
    shapes.replaceChildren(...middles
      .filter(([, [[a], [, c]]]) => a + c > 0) // k-means has no covariance
      .flatMap(([mean, covariance, index]) => [2, 1].map((times) => ellipse(mean, covariance, times, index))));
  }

  moveCursor(position);
  return { element, draw };
}

// The color of the cluster that a point belongs to most.
function colorOf(shares) {
  const most = Math.max(...(shares ?? [0]));
  return most > 0 ? category(shares.indexOf(most)) : "var(--soft)"; // belongs to no cluster
}

// A disk with a slice for each share, clockwise from the top.
function slices(shares) {
  const total = shares.reduce((sum, share) => sum + share, 0);
  const edge = (part) => [SLICE * Math.sin(2 * Math.PI * part), -SLICE * Math.cos(2 * Math.PI * part)].map((value) => value.toFixed(2));
  let from = 0;
  return shares.map((share, index) => {
    const to = from + share / total;
    const path = svg("path", { d: `M0 0L${edge(from)}A${SLICE} ${SLICE} 0 ${to - from > 0.5 ? 1 : 0} 1 ${edge(to)}z`, fill: category(index) });
    from = to;
    return path;
  });
}

function cross(middle) {
  const [x, y] = toScreen(middle);
  return `M${x - 9} ${y}h18M${x} ${y - 9}v18`;
}

// Half the width and the height of the outer ellipse.
function reach([[a], [, c]]) {
  return [a, c].map((variance) => 2 * Math.sqrt(variance) * UNIT);
}

function joint(from, to, stroke, kind) {
  const [[x1, y1], [x2, y2]] = [toScreen(from), toScreen(to)];
  return svg("line", { x1, y1, x2, y2, stroke, class: kind });
}

// The half axes and direction of the covariance [[a, b], [b, c]], in closed form.
function axesOf([[a, b], [, c]], times) {
  const mid = (a + c) / 2;
  const radius = Math.hypot((a - c) / 2, b);
  const [rx, ry] = [mid + radius, mid - radius].map((value) => Math.sqrt(Math.max(value, 0)) * times * UNIT);
  return { rx, ry, turn: -Math.atan2(2 * b, a - c) / 2 };
}

// Places on an ellipse, a few pixels apart.
function outline(mean, covariance, times) {
  const [cx, cy] = toScreen(mean);
  const { rx, ry, turn } = axesOf(covariance, times);
  const [cos, sin, count] = [Math.cos(turn), Math.sin(turn), Math.ceil(Math.max(rx, ry)) + 8];
  return Array.from({ length: count }, (_, index) => {
    const angle = (2 * Math.PI * index) / count;
    const [x, y] = [rx * Math.cos(angle), ry * Math.sin(angle)];
    return [cx + cos * x - sin * y, cy + sin * x + cos * y];
  });
}

function aroundCross(middle) {
  const [x, y] = toScreen(middle);
  return [[x, y], [x - 9, y], [x + 9, y], [x, y - 9], [x, y + 9]];
}

function ellipse(mean, covariance, times, index) {
  const [cx, cy] = toScreen(mean);
  const { rx, ry, turn } = axesOf(covariance, times);
  return svg("ellipse", {
    cx, cy, rx: Math.max(rx, 1), ry: Math.max(ry, 1), transform: `rotate(${turn * (180 / Math.PI)} ${cx} ${cy})`,
    fill: category(index), stroke: category(index), class: times === 1 ? "inner" : "outer",
  });
}

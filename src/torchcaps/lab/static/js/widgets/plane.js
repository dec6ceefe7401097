// A plane with points and clusters. A click, or the arrow keys and Enter, add a point. Ellipses show one and two
// standard deviations.

import { category, color, css, onTheme } from "../core/palette.js";
import { svg } from "../core/dom.js";

const [WIDTH, HEIGHT] = [600, 420];
const [LABEL, LINE] = [190, 20]; // pixels: the size of a label
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
  const means = svg("g", { class: "means" });
  const names = svg("g", { class: "names" });
  const cursor = svg("path", { class: "aim", d: "M-12 0h24M0 -12v24" });
  const element = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plane", tabindex: 0, role: "application", "aria-label": label,
  }, shapes, joints, dots, means, names, cursor);
  let last = null;
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

  function blend(shares) {
    const sum = shares?.reduce((total, share) => total + share, 0);
    if (!sum) return css(color("soft")); // belongs to no cluster
    return css(shares.reduce((rgb, share, index) => {
      const part = color(`c${index}`);
      return rgb.map((value, channel) => value + (part[channel] * share) / sum);
    }, [0, 0, 0]));
  }

  // step: one iteration of the response, or null if there is none; labels: a text for each cluster
  function draw(points, step, labels = []) {
    last = [points, step, labels];
    const paired = step?.means[0]?.length === 4; // two points are one pose
    joints.replaceChildren(...(paired ? points.slice(0, Math.floor(points.length / 2)) : []).map((_, index) =>
      joint(points[2 * index], points[2 * index + 1], blend(step.assignment[2 * index]), "pair-line")));
    dots.replaceChildren(...points.map((point, index) => {
      const [x, y] = toScreen(point);
      const shares = step?.assignment[index];
      return svg("path", { d: SHAPES[shares ? shares.indexOf(Math.max(...shares)) : 0], transform: `translate(${x} ${y})`, fill: blend(shares) });
    }));
    const middles = (step?.means ?? []).flatMap((mean, index) =>
      (paired ? [mean.slice(0, 2), mean.slice(2)] : [mean]).map((middle) => [middle, step.covariances[index], index]));
    means.replaceChildren(
      ...(paired ? step.means.map((mean, index) => joint(mean.slice(0, 2), mean.slice(2), category(index), "mean-line")) : []),
      ...middles.map(([middle, , index]) => {
        const [x, y] = toScreen(middle);
        return svg("path", { d: `M${x - 8} ${y}h16M${x} ${y - 8}v16`, stroke: category(index) });
      }));
    const places = placeLabels(labels.map((_, index) => [step.means[index], step.covariances[index]]));
    names.replaceChildren(...labels.map((text, index) =>
      svg("text", { x: places[index][0], y: places[index][1], "text-anchor": "middle", fill: category(index) }, text)));
    shapes.replaceChildren(...middles
      .filter(([, [[a], [, c]]]) => a + c > 0) // k-means has no covariance
      .flatMap(([mean, covariance, index]) => [2, 1].map((times) => ellipse(mean, covariance, times, index))));
  }

  moveCursor(position);
  onTheme(() => last && draw(...last));
  return { element, draw };
}

// Above each ellipse, inside the plane, and not over another label.
function placeLabels(clusters) {
  const places = [];
  for (const [mean, [, [, variance]]] of clusters) {
    const [middle, center] = toScreen(mean);
    const x = Math.max(LABEL / 2, Math.min(WIDTH - LABEL / 2, middle));
    let y = Math.max(LINE, Math.min(HEIGHT - 6, center - 2 * Math.sqrt(variance) * UNIT - 12));
    while (places.some(([left, top]) => Math.abs(left - x) < LABEL && Math.abs(top - y) < LINE)) y += LINE / 4;
    places.push([x, y]);
  }
  return places;
}

function joint(from, to, stroke, kind) {
  const [[x1, y1], [x2, y2]] = [toScreen(from), toScreen(to)];
  return svg("line", { x1, y1, x2, y2, stroke, class: kind });
}

// The half axes and direction of the covariance [[a, b], [b, c]], in closed form.
function ellipse(mean, [[a, b], [, c]], times, index) {
  const [cx, cy] = toScreen(mean);
  const mid = (a + c) / 2;
  const radius = Math.hypot((a - c) / 2, b);
  const [rx, ry] = [mid + radius, mid - radius].map((value) => Math.sqrt(Math.max(value, 0)) * times * UNIT);
  const turn = (-Math.atan2(2 * b, a - c) / 2) * (180 / Math.PI);
  return svg("ellipse", {
    cx, cy, rx: Math.max(rx, 1), ry: Math.max(ry, 1), transform: `rotate(${turn} ${cx} ${cy})`,
    fill: category(index), stroke: category(index), class: times === 1 ? "inner" : "outer",
  });
}

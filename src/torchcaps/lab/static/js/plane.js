// A plane with points and clusters: a click adds a point, ellipses show one and two standard deviations.

import { category, colour, css, onTheme } from "./palette.js";
import { svg } from "./dom.js";

const [WIDTH, HEIGHT] = [600, 420];
const UNIT = 200; // pixels per unit; the origin is the middle

function toScreen([x, y]) {
  return [WIDTH / 2 + x * UNIT, HEIGHT / 2 - y * UNIT];
}

// onAdd([x, y])
export function createPlane({ label, onAdd }) {
  const shapes = svg("g", { class: "ellipses" });
  const dots = svg("g", { class: "points" });
  const means = svg("g", { class: "means" });
  const element = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plane", role: "img", "aria-label": label }, shapes, dots, means);
  let last = null;

  element.addEventListener("click", (event) => {
    const box = element.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const y = ((event.clientY - box.top) / box.height) * HEIGHT;
    onAdd([(x - WIDTH / 2) / UNIT, (HEIGHT / 2 - y) / UNIT].map((value) => Number(value.toFixed(3))));
  });

  function tint(shares) {
    if (!shares) return css(colour("soft"));
    const sum = shares.reduce((total, share) => total + share, 0) || 1;
    return css(shares.reduce((rgb, share, index) => {
      const part = colour(`c${index}`);
      return rgb.map((value, channel) => value + (part[channel] * share) / sum);
    }, [0, 0, 0]));
  }

  // step: one iteration of the answer, or null while there is none
  function draw(points, step) {
    last = [points, step];
    dots.replaceChildren(...points.map((point, index) => {
      const [cx, cy] = toScreen(point);
      return svg("circle", { cx, cy, r: 5, fill: tint(step?.assignment[index]) });
    }));
    means.replaceChildren(...(step?.means ?? []).map((mean, index) => {
      const [x, y] = toScreen(mean);
      return svg("path", { d: `M${x - 8} ${y}h16M${x} ${y - 8}v16`, stroke: category(index) });
    }));
    const round = (step?.means ?? []).map((mean, index) => [mean, step.covariances[index], index]);
    shapes.replaceChildren(...round
      .filter(([, [[a], [, c]]]) => a + c > 0) // k-means has no width to draw
      .flatMap(([mean, covariance, index]) => [2, 1].map((times) => ellipse(mean, covariance, times, index))));
  }

  onTheme(() => last && draw(...last));
  return { element, draw };
}

// Half axes and direction of [[a, b], [b, c]] in closed form.
function ellipse(mean, [[a, b], [, c]], times, index) {
  const [cx, cy] = toScreen(mean);
  const middle = (a + c) / 2;
  const apart = Math.hypot((a - c) / 2, b);
  const [rx, ry] = [middle + apart, middle - apart].map((value) => Math.sqrt(Math.max(value, 0)) * times * UNIT);
  const turn = (-Math.atan2(2 * b, a - c) / 2) * (180 / Math.PI);
  return svg("ellipse", {
    cx, cy, rx: Math.max(rx, 1), ry: Math.max(ry, 1), transform: `rotate(${turn} ${cx} ${cy})`,
    fill: category(index), stroke: category(index), class: times === 1 ? "inner" : "outer",
  });
}

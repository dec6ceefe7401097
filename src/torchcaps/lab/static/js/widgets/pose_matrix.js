// A 4 × 4 pose as colored cells, each with a line of its recent values.

import { h, svg } from "../core/dom.js";

const LENGTH = 60;

function norm(values) {
  return Math.hypot(...values);
}

export function createPoseMatrix(label) {
  const cells = Array.from({ length: 16 }, () => {
    const line = svg("polyline", {});
    const value = h("span", {});
    const element = h("div", { class: "cell" }, value,
      svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" }, line));
    return { element, value, line, past: [] };
  });
  const element = h("div", { class: "matrix", role: "img", "aria-label": label }, cells.map((cell) => cell.element));
  let largest = 1e-6;
  let first = null;
  let moved = 0;

  // Returns how far the pose has moved from its first value, at most, as a share of the norm of that value.
  function update(pose) {
    const flat = pose.flat();
    first ??= flat;
    moved = Math.max(moved, norm(flat.map((value, index) => value - first[index])) / (norm(first) || 1));
    largest = Math.max(largest, ...flat.map(Math.abs));
    flat.forEach((value, index) => {
      const cell = cells[index];
      cell.past = [...cell.past, value].slice(-LENGTH);
      cell.value.textContent = value.toFixed(2).replace("-", "−");
      cell.element.style.setProperty("--share", `${Math.round((Math.abs(value) / largest) * 45)}%`);
      cell.element.style.setProperty("--sign", value < 0 ? "var(--less)" : "var(--more)");
      const [low, high] = [Math.min(...cell.past), Math.max(...cell.past)];
      const height = (past) => (high > low ? 38 - ((past - low) / (high - low)) * 36 : 20);
      cell.line.setAttribute("points", cell.past
        .map((past, step) => `${(step / (LENGTH - 1)) * 100},${height(past)}`).join(" "));
    });
    return moved;
  }

  function clear() {
    first = null;
    moved = 0;
    largest = 1e-6;
    for (const cell of cells) cell.past = [];
  }

  return { element, update, clear };
}

// A 4 × 4 pose as colored cells, each with a line: its values around the ring, and where the toy stands now.

import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { numberText } from "../core/scale.js";
import { createColorBar } from "./color_bar.js";

const [TOP, BOTTOM] = [2, 38];

export function createPoseMatrix(label) {
  const cells = Array.from({ length: 16 }, () => {
    const [line, now, value] = [svg("polyline", {}), svg("line", { class: "now", y1: 0, y2: 40, visibility: "hidden" }), h("span", {})];
    const element = h("div", { class: "cell" }, value,
      svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" }, now, line));
    return { element, value, line, now };
  });
  const bar = createColorBar({ label: t("Numbers of the pose"), kind: "signed pale" });
  const element = h("div", {}, h("div", { class: "matrix", role: "img", "aria-label": label }, cells.map((cell) => cell.element)), bar.element);

  // pose: 4 × 4 numbers; azimuth in degrees
  function update(pose, azimuth) {
    const flat = pose.flat();
    const largest = Math.max(1e-6, ...flat.map(Math.abs));
    bar.show(numberText(-largest, 2), "0", numberText(largest, 2));
    flat.forEach((number, index) => {
      const { element: cell, value, now } = cells[index];
      value.textContent = numberText(number, 2);
      cell.style.setProperty("--strength", `${Math.round((Math.abs(number) / largest) * 45)}%`);
      cell.style.setProperty("--sign", number < 0 ? "var(--less)" : "var(--more)");
      for (const name of ["x1", "x2"]) now.setAttribute(name, (((azimuth % 360) + 360) % 360) / 3.6);
    });
  }

  // One pose for each azimuth; each line goes from the lowest to the highest value of its number.
  function showTurn({ azimuths, poses }) {
    const closed = [...azimuths.map((degrees, index) => [degrees, poses[index]]), [360, poses[0]]];
    cells.forEach(({ element: cell, line, now }, index) => {
      const values = poses.map((pose) => pose[index]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      const height = (value) => (high > low ? BOTTOM - ((value - low) / (high - low)) * (BOTTOM - TOP) : (TOP + BOTTOM) / 2);
      line.setAttribute("points", closed.map(([degrees, pose]) => `${(degrees / 3.6).toFixed(1)},${height(pose[index]).toFixed(1)}`).join(" "));
      now.setAttribute("visibility", "visible");
      cell.title = t("from {low} to {high} around the ring", { low: numberText(low, 3), high: numberText(high, 3) });
    });
  }

  function clear() {
    for (const { line, now } of cells) {
      line.setAttribute("points", "");
      now.setAttribute("visibility", "hidden");
    }
  }

  return { element, update, showTurn, clear };
}

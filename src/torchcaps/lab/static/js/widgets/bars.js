// Horizontal bars, one row per class: name, bar, number.

import { h } from "../core/dom.js";

// A full bar stands for `max`; scale(max, mark) changes it, and draws a line at `mark`. format(value) writes the numbers.
export function createBars({ labels, label, format = (value) => value.toFixed(2), max: first = 1 }) {
  let max = first;
  const rows = labels.map((name) => {
    const ghost = h("b", { class: "ghost", hidden: true });
    const bar = h("span", { class: "bar", "aria-hidden": "true" }, ghost, h("i"));
    const value = h("span", { class: "value" }, "");
    const element = h("li", {}, h("span", { class: "name" }, String(name)), bar, value);
    return { element, fill: bar.lastChild, ghost, value };
  });
  const element = h("ul", { class: "bars", "aria-label": label }, rows.map((row) => row.element));

  function width(value) {
    return `${Math.max(0, Math.min(1, value / max)) * 100}%`;
  }

  // marks: { index: CSS color } highlights these rows; ghosts: earlier values, behind the bars
  function update(values, marks = {}, ghosts = null) {
    rows.forEach((row, index) => {
      const value = values[index];
      row.fill.style.transform = `translateX(${width(value)}) translateX(-100%)`; // a width would be laid out anew
      row.fill.style.background = marks[index] ?? "";
      row.ghost.hidden = ghosts === null;
      if (ghosts) row.ghost.style.width = width(ghosts[index]);
      row.element.classList.toggle("marked", index in marks);
      row.value.textContent = format(value);
    });
    element.classList.toggle("ghosted", ghosts !== null);
  }

  function scale(next, mark) {
    max = next;
    element.style.setProperty("--mark", `${(mark / max) * 100}%`);
    element.classList.add("ruled");
  }

  return { element, update, scale };
}

// Horizontal bars, one row per class: name, bar, number.

import { h } from "../core/dom.js";

// A full bar stands for `max`.
export function createBars({ labels, label, digits = 2, max = 1 }) {
  const rows = labels.map((name) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" }, h("i"));
    const value = h("span", { class: "value" }, "");
    const element = h("li", {}, h("span", { class: "name" }, String(name)), bar, value);
    return { element, fill: bar.firstChild, value };
  });
  const element = h("ul", { class: "bars", "aria-label": label }, rows.map((row) => row.element));

  // marks: { index: CSS color } highlights these rows
  function update(values, marks = {}) {
    rows.forEach((row, index) => {
      const value = values[index];
      row.fill.style.width = `${Math.max(0, Math.min(1, value / max)) * 100}%`;
      row.fill.style.background = marks[index] ?? "";
      row.element.classList.toggle("marked", index in marks);
      row.value.textContent = value.toFixed(digits);
    });
  }

  return { element, update };
}

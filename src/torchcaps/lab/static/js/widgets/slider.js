// A range input with a label and its value.

import { h } from "../core/dom.js";

let count = 0;

export function createSlider({ label, min, max, step, value, format = String, onInput, kind = "" }) {
  count += 1;
  const id = `slider-${count}`;
  const input = h("input", { type: "range", id, min, max, step, value });
  const shown = h("span", { class: "value", "aria-hidden": "true" }); // the input is announced instead
  const home = h("i", { class: "home", hidden: true }); // marks a value to come back to
  const element = h("div", { class: `slider ${kind}`.trim() }, h("label", { for: id }, label), shown, input, home);

  function refresh() {
    const now = Number(input.value);
    const share = (now - input.min) / (input.max - input.min || 1);
    const zero = Math.max(0, Math.min(1, -input.min / (input.max - input.min || 1)));
    input.style.setProperty("--from", `${Math.min(zero, share) * 100}%`);
    input.style.setProperty("--fill", `${Math.max(zero, share) * 100}%`);
    shown.textContent = input.disabled ? "" : format(now); // then it is the value of nothing
    input.setAttribute("aria-valuetext", shown.textContent);
  }

  input.addEventListener("input", () => {
    refresh();
    onInput(Number(input.value));
  });
  refresh();

  return {
    element,
    input,
    get value() {
      return Number(input.value);
    },
    enable(on) {
      input.disabled = !on;
      refresh();
    },
    // Shows a mark at this value.
    mark(first) {
      home.hidden = false;
      home.style.setProperty("--at", (first - input.min) / (input.max - input.min || 1));
    },
    // Moves the slider without calling onInput.
    set(next, limits = null) {
      if (!limits && Number(input.value) === next) return;
      if (limits) [input.min, input.max] = limits;
      input.value = next;
      refresh();
    },
  };
}

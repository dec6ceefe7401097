// Radio buttons in one row.

import { h } from "../core/dom.js";

let count = 0;

// options: [[value, text, what it means (under the pointer)], …]; onChange(value)
export function createChoices({ label, options, value, onChange }) {
  count += 1;
  const name = `choice-${count}`;
  const inputs = options.map(([key]) => h("input", { type: "radio", name, value: key, checked: key === value }));
  const element = h("fieldset", { class: "choices", "aria-label": label },
    options.map(([, text, hint], index) => h("label", { title: hint }, inputs[index], text)));
  element.addEventListener("change", () => onChange(get()));

  function get() {
    const index = inputs.findIndex((input) => input.checked);
    return options[index][0];
  }

  return {
    element,
    get value() {
      return get();
    },
    set(next) {
      inputs[options.findIndex(([key]) => key === next)].checked = true;
    },
  };
}

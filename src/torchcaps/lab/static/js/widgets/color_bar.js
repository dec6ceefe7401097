// The colors that stand for a value, from the lowest to the highest, with their numbers.

import { h } from "../core/dom.js";

// kind: "signed" (below and above zero), "signed pale" (the same behind a text), "amount" (gray: little to much) or "above" (how much is sent);
// the classes of style/charts.css have the same colors as the pictures. paper: their color for zero is that of the paper
export function createColorBar({ label, kind, paper = false }) {
  const numbers = h("span", { class: "numbers" });
  const element = h("span", { class: "color-bar", role: "img", "aria-label": label },
    h("i", { class: paper ? `${kind} on-paper` : kind }), numbers);

  // texts: from left to right, evenly spaced
  function show(...texts) {
    numbers.replaceChildren(...texts.map((text) => h("span", {}, text)));
    element.setAttribute("aria-label", `${label}: ${texts.join(" – ")}`);
  }

  return { element, show };
}

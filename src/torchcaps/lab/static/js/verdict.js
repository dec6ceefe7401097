// A short sentence that screen readers announce when it changes.

import { h } from "./dom.js";

export function createVerdict() {
  const big = h("b", { class: "big" });
  const words = h("span", { class: "words" });
  const element = h("p", { class: "verdict", role: "status", "aria-live": "polite" }, big, words);
  let last = "";
  return {
    element,
    set(answer, sentence = "") {
      if (`${answer}|${sentence}` === last) return;
      last = `${answer}|${sentence}`;
      big.textContent = answer;
      words.textContent = sentence;
    },
  };
}

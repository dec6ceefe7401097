// When a network's weights are not there, the view says so where its answer would stand.

import { h } from "./dom.js";

export function createNotice(stage) {
  const element = h("p", { class: "notice", role: "status", hidden: true });
  stage.prepend(element);
  return (sentence) => {
    element.hidden = !sentence;
    element.textContent = sentence ?? "";
    stage.classList.toggle("missing", Boolean(sentence));
  };
}

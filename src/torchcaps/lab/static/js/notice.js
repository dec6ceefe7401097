// When a network's weights are not there, the view says so where its answer would stand.

import { currentImage } from "./state.js";
import { h } from "./dom.js";

const EMPTY = "The paper in Draw is empty: draw a digit there first.";

export function createNotice(stage) {
  const element = h("p", { class: "notice", role: "status", hidden: true });
  stage.prepend(element);
  return (sentence) => {
    element.hidden = !sentence;
    element.textContent = sentence ?? "";
    stage.classList.toggle("missing", Boolean(sentence));
  };
}

// The notice of a view that looks at the image of Draw.
export function createImageNotice(stage) {
  const notice = createNotice(stage);
  return (sentence) => notice(currentImage() ? sentence : EMPTY);
}

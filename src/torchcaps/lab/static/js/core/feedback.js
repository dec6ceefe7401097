// What the page reports about itself: busy state, error messages, notices inside a view, and verdicts.

import { h } from "./dom.js";
import { t } from "./i18n.js";
import { currentImage } from "./state.js";

const stage = document.getElementById("stage");
const statusLine = document.getElementById("status");
let pending = 0;

// The page is busy while a view opens or a request is pending; screen readers and tests use this.
export function beginBusy() {
  pending += 1;
  stage.setAttribute("aria-busy", "true");
}

export function endBusy() {
  pending -= 1;
  if (pending === 0) stage.setAttribute("aria-busy", "false");
}

// The message at the bottom of the page; an empty text removes it.
export function showStatus(text) {
  if (statusLine.textContent !== text) statusLine.textContent = text;
}

// A message in place of a view's results, for example when weights are missing; null removes it.
export function createNotice(viewStage) {
  const element = h("p", { class: "notice", role: "status", hidden: true });
  viewStage.prepend(element);
  return (message, ...more) => {
    element.hidden = !message;
    element.replaceChildren(message ?? "", ...more);
    viewStage.classList.toggle("missing", Boolean(message));
  };
}

// The notice of a view that uses the drawing: it asks for one if there is none.
export function createImageNotice(viewStage) {
  const notice = createNotice(viewStage);
  const link = h("a", { href: "#draw" }, t("Draw a digit"));
  return (message) => (currentImage() ? notice(message) : notice(t("There is no drawing yet. "), link));
}

// A large result with a short explanation; screen readers announce it when it changes.
export function createVerdict() {
  const result = h("b", { class: "big" });
  const explanation = h("span", { class: "words" });
  const element = h("p", { class: "verdict", role: "status", "aria-live": "polite" }, result, explanation);
  let last = "";
  return {
    element,
    set(text, sentence = "") {
      if (`${text}|${sentence}` === last) return;
      last = `${text}|${sentence}`;
      result.textContent = text;
      explanation.textContent = sentence;
    },
  };
}

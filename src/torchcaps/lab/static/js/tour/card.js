// The invitation to the tour. Its code is loaded when it starts.

import { button, h } from "../core/dom.js";
import { t } from "../core/i18n.js";

export const START = "tourstart"; // the event that starts it

export function createTourCard() {
  return h("section", { class: "card tour-card", "aria-label": t("Tour") },
    h("h2", {}, t("A tour of a minute")), h("p", { class: "soft" }, t("Nine steps that draw, turn and scramble for you, with the controls of the views.")),
    button(t("Start the tour"), () => document.dispatchEvent(new Event(START)), "main"));
}

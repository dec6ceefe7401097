// What the colors of answers mean, the same in every view with two networks: a color for each network, and stripes for an
// answer that is wrong, so that no color means two things.

import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";

export const COLORS = { capsules: "var(--accent)", cnn: "var(--cnn)" };
export const WRONG = "var(--wrong)"; // the background of a bar

// wrong: what stripes stand for
export function createAnswerKey(wrong) {
  return h("p", { class: "answer-key small" },
    h("span", { class: "swatch-key capsules-key" }, t("Capsules")), h("span", { class: "swatch-key cnn-key" }, t("CNN")),
    h("span", { class: "swatch-key wrong-key" }, wrong));
}

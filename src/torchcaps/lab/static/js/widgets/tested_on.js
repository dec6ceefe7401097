// On which scenes the errors of a network for parts and wholes were counted, from api/status.

import { getCached } from "../core/api.js";
import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";

// A line of text; it stays empty if that is not known.
export function testedLine(model, world) {
  const element = h("p", { class: "tested soft small" });
  getCached("api/status").then(({ models }) => {
    const tested = models.find((entry) => entry.model === model && entry.data === world)?.tested;
    if (!tested) return;
    const [low, high] = tested.scale.map((value) => value.toFixed(2));
    element.textContent = t("Measured on one whole per picture: size {low} to {high}, at most {far} off the middle, any angle.",
      { low, high, far: tested.offset[1].toFixed(1) });
  }, () => {});
  return element;
}

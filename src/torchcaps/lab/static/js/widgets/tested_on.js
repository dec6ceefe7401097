// On which scenes the errors of a network for parts and wholes were counted, from api/status.

import { getCached } from "../core/api.js";
import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";

// A line of text; it stays empty if that is not known.
export function testedLine(model, world) {
  const element = h("p", { class: "tested soft small" });
  getCached("api/status").then(({ models }) => {
    const known = models.filter((entry) => entry.data === world && entry.tested);
    const tested = known.find((entry) => entry.model === model)?.tested;
    if (!tested) return;
    const [low, high] = tested.scale.map((value) => value.toFixed(2));
    const same = known.every((entry) => entry.tested.scale.every((value, end) => value === tested.scale[end]));
    element.textContent = [
      t("Measured on one whole per picture: size {low} to {high}, at most {far} off the middle, any angle.", { low, high, far: tested.offset[1].toFixed(1) }),
      ...(same ? [] : [t("The other network was measured on other sizes, so their errors cannot be compared.")]),
    ].join(t(" "));
  }, () => {});
  return element;
}

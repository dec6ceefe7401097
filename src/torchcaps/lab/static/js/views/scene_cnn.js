// The CNN beside the capsules in a scene. It has one score for each type of whole, and they add up to 1: with several
// wholes its highest scores count, as many as there are types of whole in the scene.

import { card, h } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { networkLine } from "../core/networks.js";
import { createBars } from "../widgets/bars.js";
import { testedLine } from "../widgets/tested_on.js";

// types: of wholes, as api/shapes returns them; listText(names) joins names
export function createSceneCnn(world, types, listText) {
  const bars = createBars({ labels: types.map((type) => t(type.name)), label: t("Scores of the CNN") });
  const text = h("p", { class: "soft small", role: "status" });
  const element = card("result", t("A CNN on the same picture"), t("trained on one whole per picture, never on several"), text, bars.element,
    h("p", { class: "soft small" }, t("Its scores are a softmax: they add up to 1, so it cannot say that there is no whole.")),
    networkLine("parts_cnn", world).element, testedLine("parts_cnn", world));

  // objects: of the scene; those with kind >= 0 and wrong < 0 are wholes that are put together rightly
  function show({ cnn: scores, wholes }, objects) {
    element.hidden = !scores;
    if (!scores) return;
    const present = new Set(objects.filter(({ kind, wrong }) => kind >= 0 && wrong < 0).map(({ kind }) => kind));
    const order = scores.map((_, kind) => kind).sort((one, two) => scores[two] - scores[one]);
    const named = present.size ? order.slice(0, present.size) : order.filter((kind) => scores[kind] > 0.5);
    const color = (kind) => (!present.size || present.has(kind) ? "var(--accent)" : "var(--soft)");
    bars.update(scores, Object.fromEntries(named.map((kind) => [kind, color(kind)])));
    const names = listText(named.map((kind) => t(types[kind].name)));
    const right = named.filter((kind) => present.has(kind)).length;
    if (!present.size) text.textContent = withoutWhole(named, names, wholes);
    else if (present.size === 1) text.textContent = right ? t("Its highest score: {names}. That is right.", { names }) : t("Its highest score: {names}. That is wrong.", { names });
    else text.textContent = t("Its {count} highest scores, as many as there are types of whole here: {names}. Right: {right} of {count}.", { count: present.size, names, right });
  }

  return { element, show };
}

function withoutWhole(named, names, wholes) {
  if (!named.length) return t("No score is above 0.5.");
  return wholes.length ? t("Above 0.5: {names}.", { names }) : t("Above 0.5: {names}, although the capsules found no whole.", { names });
}

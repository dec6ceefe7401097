// The CNN beside the capsules in a scene. It has one score for each type of whole, and they add up to 1: with several
// wholes its highest scores count, as many as there are types of whole in the scene.

import { card, h } from "../core/dom.js";
import { createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine } from "../core/networks.js";
import { createBars } from "../widgets/bars.js";
import { testedLine } from "../widgets/tested_on.js";

// types: of wholes, as api/shapes returns them; listText(names) joins names
export function createSceneCnn(world, types, listText) {
  const bars = createBars({ labels: types.map((type) => t(type.name)), label: t("Scores of the CNN") });
  const text = h("p", { class: "soft small", role: "status" });
  const verdict = createVerdict();
  const answer = h("div", { class: "cnn" }, h("span", { class: "small soft" }, t("CNN")), verdict.element);
  const element = card("result", t("A CNN on the same picture"), t("both learned wholes from one whole per picture"), text, bars.element,
    h("p", { class: "soft small" }, t("Its scores add up to 1 (softmax), so it always names a whole.")),
    networkLine("parts_cnn", world).element, testedLine("parts_cnn", world));

  // objects: of the scene; those with kind >= 0 and wrong < 0 are wholes that are put together rightly
  function show({ cnn: scores, wholes }, objects) {
    for (const shown of [element, answer]) shown.hidden = !scores;
    if (!scores) return;
    const present = new Set(objects.filter(({ kind, wrong }) => kind >= 0 && wrong < 0).map(({ kind }) => kind));
    const order = scores.map((_, kind) => kind).sort((one, two) => scores[two] - scores[one]);
    const named = order.slice(0, present.size || 1);
    const right = named.filter((kind) => present.has(kind)).length;
    const color = (kind) => (!present.size || present.has(kind) ? "var(--accent)" : "var(--soft)");
    bars.update(scores, Object.fromEntries(named.map((kind) => [kind, color(kind)])));
    const names = listText(named.map((kind) => t(types[kind].name)));
    const values = { names, right, count: present.size, score: scores[named[0]].toFixed(2) };
    verdict.set(names, explain(values, objects));
    verdict.element.classList.toggle("plain", right < named.length);
    text.textContent = describe(values, wholes);
  }

  return { element, answer, show };
}

function explain({ count, right, score }, objects) {
  if (count > 1) return t("{right} of {count} correct", { right, count });
  if (count) return right ? t("correct") : t("wrong");
  const scrambled = objects.length && objects.every(({ wrong }) => wrong >= 0);
  return scrambled ? t("score {score}, although the parts are scrambled", { score }) : t("score {score}", { score });
}

function describe({ names, count, right }, wholes) {
  if (count > 1) return t("Its {count} highest scores: {names}. Correct: {right} of {count}.", { names, count, right });
  if (count) return right ? t("Its highest score: {names}. That is right.", { names }) : t("Its highest score: {names}. That is wrong.", { names });
  return wholes.length ? t("Its highest score: {names}.", { names }) : t("Its highest score: {names}. The capsules found no whole.", { names });
}

// The answers of both networks to a scene, with their numbers for each type of whole. Those of the CNN add up to 1: with
// several wholes its highest scores count, as many as there are types of whole in the scene.

import { card, h } from "../core/dom.js";
import { createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { COLORS, createAnswerKey, WRONG } from "../widgets/answer_key.js";
import { createBars } from "../widgets/bars.js";

// types of wholes and groups, as api/shapes returns them; listText(names) joins names
export function createSceneScores(types, groups, listText) {
  const labels = types.map((type) => t(type.name));
  const capsules = { verdict: createVerdict(), bars: createBars({ labels, label: t("Presence of each type, for the capsules") }) };
  const cnn = { verdict: createVerdict(), bars: createBars({ labels, label: t("Scores of the CNN") }) };
  const text = h("p", { class: "soft small", role: "status" });
  const line = h("p", { class: "soft small" });
  const heads = [h("h3", {}, t("Capsules"), h("span", { class: "soft" }, t("presence"))), h("h3", {}, t("CNN"), h("span", { class: "soft" }, t("score")))];
  const cnnColumn = h("div", { class: "unnamed" }, heads[1], cnn.bars.element);
  const element = card("result scene-scores", t("Both networks on this picture"), t("both learned wholes from one whole per picture"),
    h("div", { class: "pair" }, h("div", {}, heads[0], capsules.bars.element), cnnColumn),
    createAnswerKey(t("wrong answer")), text, line,
    h("p", { class: "soft small" }, t("The scores of the CNN add up to 1 (softmax), so it always names a whole.")),
    h("p", { class: "soft small" },
      t("Parts that agree are evidence: a whole can have a higher presence than each of its parts. Size 1 fits into the picture."),
      groups.length ? [t(" "), t("Wholes side by side can make a group: a house with a boat on its right is a harbor.")] : null));
  const answers = h("div", { class: "result scene-verdicts" },
    [["capsules", t("Capsules"), capsules], ["cnn", t("CNN"), cnn]].map(([name, title, { verdict }]) =>
      h("div", { class: name }, h("span", { class: "small soft" }, title), verdict.element)));

  // objects: of the scene; those with kind >= 0 and wrong < 0 are wholes that are put together rightly
  function show(response, objects) {
    const present = new Set(objects.filter(({ kind, wrong }) => kind >= 0 && wrong < 0).map(({ kind }) => kind));
    // What loose parts make is not known.
    const known = objects.every(({ kind }) => kind >= 0);
    showCapsules(response, (kind) => !known || present.has(kind));
    for (const shown of [cnnColumn, answers.lastChild, text]) shown.hidden = !response.cnn;
    if (response.cnn) showCnn(response, objects, present, known);
  }

  function showCapsules({ wholes, parts, groups: found, presence, threshold }, right) {
    const kinds = new Set(wholes.map(({ kind }) => kind));
    capsules.bars.scale(1, threshold);
    capsules.bars.update(presence, Object.fromEntries([...kinds].map((kind) => [kind, right(kind) ? COLORS.capsules : WRONG])));
    line.textContent = t("Presence: that of the best whole of each type. From the line, {threshold}, on it is found. A part counts for one whole only.", { threshold });
    const names = [...wholes].sort((one, two) => one.pose[2] - two.pose[2]).map((whole) => t(whole.name));
    capsules.verdict.set(names.length ? listText(names) : t("no whole"), describeRest({ wholes, groups: found, parts }, listText));
    capsules.verdict.element.classList.toggle("plain", !names.length);
  }

  function showCnn({ cnn: scores, wholes }, objects, present, known) {
    const order = scores.map((_, kind) => kind).sort((one, two) => scores[two] - scores[one]);
    const named = order.slice(0, present.size || 1);
    const right = named.filter((kind) => present.has(kind)).length;
    const unknown = !present.size && !known;
    cnn.bars.update(scores, Object.fromEntries(named.map((kind) => [kind, unknown || present.has(kind) ? COLORS.cnn : WRONG])));
    const names = listText(named.map((kind) => t(types[kind].name)));
    const values = { names, right, count: present.size, score: scores[named[0]].toFixed(2) };
    cnn.verdict.set(names, explain(values, objects));
    cnn.verdict.element.classList.toggle("wrong", !unknown && right < named.length);
    text.textContent = describe(values, wholes);
  }

  return { element, answers, show };
}

function describeRest({ wholes, groups, parts }, listText) {
  const used = groups.filter((_, index) => wholes.some((whole) => whole.group === index)).map((group) => t(group.name));
  const loose = parts.filter((part) => part.whole < 0).length;
  const words = [];
  if (used.length) words.push(t("together: {names}", { names: listText(used) }));
  if (loose) words.push(loose === 1 ? t("1 part belongs to no whole") : t("{count} parts belong to no whole", { count: loose }));
  if (!parts.length) words.push(t("no part was found"));
  return words.join(t("; "));
}

function explain({ count, right, score }, objects) {
  if (count > 1) return t("{right} of {count} correct", { right, count });
  if (count) return right ? t("correct") : t("wrong");
  const scrambled = objects.length && objects.every(({ wrong }) => wrong >= 0);
  return scrambled ? t("score {score}, although the parts are scrambled", { score }) : t("score {score}", { score });
}

function describe({ names, count, right }, wholes) {
  if (count > 1) return t("The {count} highest scores of the CNN: {names}. Correct: {right} of {count}.", { names, count, right });
  if (count) return right ? t("The highest score of the CNN: {names}. That is right.", { names }) : t("The highest score of the CNN: {names}. That is wrong.", { names });
  return wholes.length ? t("The highest score of the CNN: {names}.", { names }) : t("The highest score of the CNN: {names}. The capsules found no whole.", { names });
}

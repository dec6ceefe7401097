// Part of view 4: four networks that differ in their routing, side by side on the same drawing.

import { card, h } from "../core/dom.js";
import { createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine, sizeText } from "../core/networks.js";
import { numberText } from "../core/scale.js";
import { createLineChart } from "../widgets/line_chart.js";
import { createPlayer } from "../widgets/player.js";
import { answerOf, createStrips, equalShares, isBounded, leadOf } from "../widgets/strips.js";

const ROUTINGS = ["Dynamic", "EM", "k-means", "Heinsen (2019)"]; // in the order of the responses

export function createTwins() {
  const headline = createVerdict();
  const lesson = h("p", { class: "lesson" });
  const heading = h("h2", {}, t("Four routings in four small networks"));
  const player = createPlayer({ label: t("Iteration of the twins"), onChange: draw });
  const chart = createLineChart({
    label: t("What the answer gets with each routing, in each iteration"),
    xTitle: t("iteration"), y: [0, 10], height: 190, format: (value) => `${value} ×`, onPick: (index) => { player.stop(); player.goTo(index); },
  });
  const measures = [
    t("Agreement: the scalar product of vote and capsule. The products of all iterations are added up."),
    t("A Gaussian is fitted to the votes for each digit. Agreement: its density at a vote × the activation of the digit, as a logarithm."),
    t("Agreement: the cosine of the angle between a vote and the mean of the votes."),
    t("Agreement: as with EM. The activation is computed in another way: from what each part sends, with learned weights."),
  ];
  const cards = ROUTINGS.map((label) => t(label)).map((name, index) => ({
    name,
    measure: h("p", { class: "small measure" }, measures[index]),
    verdict: createVerdict(),
    sends: h("p", { class: "small sends" }),
    strips: createStrips(t("{routing}: agreement of each vote with three digits", { routing: name })),
    network: networkLine(),
  }));
  let twins = null;

  const elements = [
    h("div", { class: "w12 twins-head result" }, heading, lesson,
      h("p", { class: "soft" }, t("The four networks differ only in the routing and in the poses that it works with. Each picture has the three digits that its network ranks highest. Each routing measures agreement in its own way: compare the rows of one picture, not the numbers of two pictures."))),
    card("w12 result twins-card", t("What differs"), t("what the answer gets, in times an equal share"), headline.element, chart.element, player.element),
    ...cards.map(({ name, measure, verdict, sends, strips, network }, index) =>
      card("w6 result twin", name, index === 0 ? t("the small network above, beside its twins") : null, verdict.element, sends, measure, strips.element, network.element)),
  ];

  function load(response) {
    twins = response.twins;
    cards.forEach(({ strips, network }, index) => {
      const { measure, model, data } = twins[index];
      strips.load({ ...twins[index], measure: t(measure), bounded: isBounded(twins[index]) });
      network.show(model, data);
    });
    headline.set(...describeWinners(twins));
    lesson.textContent = teach(twins);
    sizeText(...twins.map(({ model, data }) => `${model}-${data}`)).then((size) => {
      heading.textContent = t("Four routings in four small networks ({size} parameters)", { size });
    }, () => {});
    const count = twins[0].iterations.length;
    player.load(count, count - 1);
  }

  function draw(at) {
    if (!twins) return;
    const digit = commonAnswer(twins);
    const gets = ({ iterations }) => iterations.map((step) => equalShares(step, step.share[digit]));
    cards.forEach(({ verdict, sends, strips }, index) => {
      const step = twins[index].iterations[at];
      const winner = step.activation.indexOf(Math.max(...step.activation));
      strips.show(step);
      verdict.set(String(winner), t("activation {activation}, {lead} above the next digit", {
        activation: step.activation[winner].toFixed(2), lead: numberText(leadOf(step, winner), 2),
      }));
      sends.textContent = describeParts(twins[index], at);
    });
    chart.show({
      x: twins[0].iterations.map((_, iteration) => iteration + 1),
      at,
      lines: twins.map((twin, index) => ({ name: cards[index].name, values: gets(twin), kind: `k${index}` })),
      describe: (iteration) => t("iteration {index}: {digit} gets so many times an equal share: {list}", {
        index: iteration + 1, digit, list: list(twins.map((twin, index) => [cards[index].name, gets(twin)[iteration].toFixed(1)])),
      }),
    });
  }

  return { elements, load, stop: player.stop };
}

// "6.8 with Dynamic, 6.4 with EM"
function list(pairs) {
  return pairs.map(([name, value]) => t("{value} with {name}", { value, name })).join(t(", "));
}

// What the twins say in the last iteration.
function describeWinners(twins) {
  const winners = twins.map(answerOf);
  const [first] = winners;
  if (winners.every((digit) => digit === first)) return [String(first), t("All four networks agree on {digit}.", { digit: first })];
  return [t("No agreement"), t("The networks differ: {list}.", { list: winners.map((digit, index) => `${t(ROUTINGS[index])}: ${digit}`).join(t(", ")) })];
}

// The answer of most networks; of two with equally many, that of the network that comes first.
function commonAnswer(twins) {
  const answers = twins.map(answerOf);
  const votes = (digit) => answers.filter((answer) => answer === digit).length;
  return answers.reduce((best, digit) => (votes(digit) > votes(best) ? digit : best));
}

// What the parts send to the winner of an iteration: how many of them send it most, and how much these count.
export function describeParts({ parts, iterations }, at) {
  const { activation, favorites, share, typical } = iterations[at];
  if (favorites.every((digit) => digit < 0)) return t("Iteration 1: every part sends the same share to all digits.");
  const winner = activation.indexOf(Math.max(...activation));
  const weight = (some) => some.reduce((sum, value) => sum + value, 0);
  const own = parts.filter((_, part) => favorites[part] === winner);
  const values = {
    digit: winner, typical: Math.round(typical * 100), count: own.length, parts: parts.length,
    weight: Math.round((100 * weight(own)) / weight(parts)), gets: (share[winner] * activation.length).toFixed(1),
  };
  return parts.every((value) => value === parts[0])
    ? t("The median part sends {typical} % to its favorite digit. {digit} is the favorite of {count} of the {parts} parts and gets {gets} times an equal share.", values)
    : t("The median part sends {typical} % to its favorite digit. {digit} is the favorite of {count} of the {parts} parts, which have {weight} % of all activation, and gets {gets} times an equal share.", values);
}

// What the comparison is for: whether the answer depends on the routing.
export function teach(twins) {
  const digit = commonAnswer(twins);
  const gets = twins.map(({ iterations }) => equalShares(iterations.at(-1), iterations.at(-1).share[digit]));
  const values = { digit, count: twins.filter((twin) => answerOf(twin) === digit).length };
  if (new Set(twins.map(answerOf)).size > 1) return t("What this shows: the routing can change the answer. Here {count} of the four networks say {digit}.", values);
  if (Math.min(...gets) < 1) return t("What this shows: four routings give the same answer, though not all send {digit} more than an equal share.", values);
  return t("What this shows: four routings give the same answer. All start with equal shares and send {digit} more in the end, but not equally much.", values);
}

// Part of view 4: four networks that differ in their routing, side by side on the same drawing.

import { card, h } from "../core/dom.js";
import { createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine, sizeText } from "../core/networks.js";
import { shortNumber } from "../core/scale.js";
import { createLineChart } from "../widgets/line_chart.js";
import { createPlayer } from "../widgets/player.js";
import { createStrips, equalShares, isBounded, mostOf, rangeOf } from "../widgets/strips.js";

export const ROUTINGS = [["dynamic", "Dynamic"], ["em", "EM"], ["kmeans", "k-means"], ["heinsen", "Heinsen (2019)"]];

export function createTwins() {
  const headline = createVerdict();
  const [lesson, conclusion] = [h("p", { class: "lesson" }), h("p", { class: "conclusion" })];
  const heading = h("h2", {}, t("Four smaller networks, trained with one routing each"));
  const player = createPlayer({ label: t("Iteration of the twins"), onChange: draw });
  const chart = createLineChart({
    label: t("What the answer gets with each routing, in each iteration"),
    xTitle: t("iteration"), y: [0, 10], height: 190, format: (value) => `${value} ×`, onPick: (index) => { player.stop(); player.goTo(index); },
  });
  const cards = ROUTINGS.map(([, label]) => t(label)).map((name) => ({
    name,
    verdict: createVerdict(),
    strips: createStrips(t("{routing}: agreement of each vote with three digits", { routing: name })),
    network: networkLine(),
  }));
  let twins = null;

  const elements = [
    h("div", { class: "w12 twins-head result" }, heading, lesson,
      h("p", { class: "soft" }, t("They are twins: the same network, images and number of training steps; only the routing and the poses that it works with differ. All four pictures show the same three digits and the same vertical axis. Each routing has its own measure of agreement on the other axis."))),
    card("w12 result twins-card", t("What differs"), t("what the answer gets, in times an equal share"), headline.element, conclusion, chart.element, player.element),
    ...cards.map(({ name, verdict, strips, network }) =>
      card("w6 result twin", name, null, verdict.element, strips.element, network.element)),
  ];

  function load(response) {
    twins = response.twins;
    const most = mostOf(twins);
    cards.forEach(({ strips, network }, index) => {
      const { measure, model, data } = twins[index];
      const range = rangeOf(twins.filter((twin) => twin.measure === measure));
      strips.load({ ...twins[index], measure: t(measure), bounded: isBounded(twins[index]), range, most });
      network.show(model, data);
    });
    headline.set(...describeWinners(twins));
    lesson.textContent = teach(twins);
    sizeText(...twins.map(({ model, data }) => `${model}-${data}`)).then((size) => {
      heading.textContent = t("Four smaller networks ({size} weights), trained with one routing each", { size });
    }, () => {});
    conclusion.textContent = conclude(twins);
    const count = twins[0].iterations.length;
    player.load(count, count - 1);
  }

  function draw(at) {
    if (!twins) return;
    const [digit] = twins[0].shown;
    const gets = ({ iterations }) => iterations.map((step) => equalShares(step, step.share[digit]));
    cards.forEach(({ verdict, strips }, index) => {
      const step = twins[index].iterations[at];
      const winner = step.activation.indexOf(Math.max(...step.activation));
      strips.show(step);
      verdict.set(String(winner), t("activation {activation} in iteration {index}; a typical part sends {typical} % to one digit", {
        activation: step.activation[winner].toFixed(2), index: at + 1, typical: Math.round(step.typical * 100),
      }));
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

function answerOf({ iterations }) {
  const { activation } = iterations.at(-1);
  return activation.indexOf(Math.max(...activation));
}

// What the twins say in the last iteration.
function describeWinners(twins) {
  const winners = twins.map(answerOf);
  const [first] = winners;
  if (winners.every((digit) => digit === first)) return [String(first), t("All four twins agree on {digit}.", { digit: first })];
  return [t("No agreement"), t("The twins differ: {list}.", { list: winners.map((digit, index) => `${t(ROUTINGS[index][1])}: ${digit}`).join(t(", ")) })];
}

// What the comparison is for: whether the answer depends on the routing.
export function teach(twins) {
  const [digit] = twins[0].shown;
  const gets = twins.map(({ iterations }) => equalShares(iterations.at(-1), iterations.at(-1).share[digit]));
  const values = { digit, count: twins.filter((twin) => answerOf(twin) === digit).length, low: shortNumber(Math.min(...gets)), high: shortNumber(Math.max(...gets)) };
  if (new Set(twins.map(answerOf)).size > 1) return t("What this shows: the routing can change the answer. Here {count} of the four networks say {digit}, which gets {low} to {high} times an equal share.", values);
  if (Math.min(...gets) < 1) return t("What this shows: four routings give the same answer. Not all of them send {digit} more than an equal share: it gets {low} to {high} times.", values);
  return t("What this shows: four routings give the same answer. All start with equal shares and send more to {digit} in the end, {low} to {high} times an equal share.", values);
}

// How much of the weight each routing has moved to the answer of most twins, and how sharply a part chooses; the most
// first.
export function conclude(twins) {
  const [digit] = twins[0].shown;
  const sorted = (value, format) => list(twins.map(({ routing, iterations }) =>
    [t(ROUTINGS.find(([key]) => key === routing)[1]), value(iterations.at(-1))])
    .sort(([, one], [, two]) => two - one).map(([name, number]) => [name, format(number)]));
  return t("The routings differ in how much weight they move and how sharply a part chooses. In the end, {digit} gets so many times an equal share: {shares}. A typical part sends so much of its weight to one digit: {typical}.", {
    digit, shares: sorted((step) => equalShares(step, step.share[digit]), (value) => value.toFixed(1)),
    typical: sorted((step) => step.typical, (value) => `${Math.round(100 * value)} %`),
  });
}

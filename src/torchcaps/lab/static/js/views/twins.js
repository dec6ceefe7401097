// Part of view 4: four networks that differ in their routing, side by side on the same drawing.

import { card, h } from "../core/dom.js";
import { createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine } from "../core/networks.js";
import { createLineChart } from "../widgets/line_chart.js";
import { createPlayer } from "../widgets/player.js";
import { createStrips } from "../widgets/strips.js";

export const ROUTINGS = [["dynamic", "Dynamic"], ["em", "EM"], ["kmeans", "k-means"], ["heinsen", "Heinsen"]];

// Products and cosines of votes have a lower bound, log densities have none.
export function isBounded({ measure }) {
  return measure !== "log density";
}

export function createTwins() {
  const headline = createVerdict();
  const player = createPlayer({ label: t("Iteration of the twins"), onChange: draw });
  const cards = ROUTINGS.map(([key, label]) => [key, t(label)]).map(([key, name]) => ({
    key,
    name,
    verdict: createVerdict(),
    strips: createStrips(t("{routing}: agreement of each vote with the three best digits", { routing: name })),
    chart: createLineChart({
      label: t("{routing}: share of the weight that the two best digits get, in each iteration", { routing: name }),
      xTitle: t("iteration"), y: [0, 1], height: 150, onPick: (index) => { player.stop(); player.goTo(index); },
    }),
    network: networkLine(),
  }));
  let twins = null;

  const elements = [
    h("div", { class: "w12 twins-head result" }, h("h2", {}, t("Four twins, trained with one routing each")),
      h("p", { class: "soft" }, t("The same network, images and number of training steps; only the routing and the poses that it works with differ. Each has its own measure of agreement, so compare the axes before the dots.")),
      headline.element, player.element),
    ...cards.map(({ name, verdict, strips, chart, network }) =>
      card("w6 result twin", name, null, verdict.element, strips.element, chart.element, network.element)),
  ];

  function load(response) {
    twins = response.twins;
    const winners = twins.map((twin) => twin.shown[0]);
    cards.forEach(({ strips, network }, index) => {
      strips.load({ ...twins[index], measure: t(twins[index].measure), bounded: isBounded(twins[index]) });
      network.show(twins[index].model, twins[index].data);
    });
    headline.set(...describeWinners(winners));
    const count = twins[0].iterations.length;
    player.load(count, count - 1);
  }

  function draw(at) {
    if (!twins) return;
    cards.forEach(({ verdict, strips, chart }, index) => {
      const { shown: [best, second], iterations } = twins[index];
      const step = iterations[at];
      const winner = step.activation.indexOf(Math.max(...step.activation));
      const share = (digit) => iterations.map((each) => each.share[digit]);
      strips.show(step);
      verdict.set(String(winner), t("activation {activation} in iteration {index}; {share} % of the weight", {
        activation: step.activation[winner].toFixed(2), index: at + 1, share: Math.round(step.share[winner] * 100),
      }));
      chart.show({
        x: iterations.map((_, iteration) => iteration + 1),
        at,
        lines: [
          { name: t("weight sent to {digit}", { digit: best }), values: share(best), kind: "one" },
          { name: t("to {digit}", { digit: second }), values: share(second), kind: "two" },
        ],
        describe: (iteration) => t("iteration {index}: {best} gets {first} %, {second} gets {other} %", {
          index: iteration + 1, best, second, first: Math.round(share(best)[iteration] * 100), other: Math.round(share(second)[iteration] * 100),
        }),
      });
    });
  }

  return { elements, load, stop: player.stop };
}

// What the twins say in the last iteration.
function describeWinners(winners) {
  const [first] = winners;
  if (winners.every((digit) => digit === first)) return [String(first), t("All four twins agree on {digit}.", { digit: first })];
  const list = winners.map((digit, index) => `${t(ROUTINGS[index][1])}: ${digit}`).join(", ");
  return [t("No agreement"), t("The twins differ: {list}.", { list })];
}

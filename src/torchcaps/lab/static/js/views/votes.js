// View 4: how well the votes agree with the three best digits, in each iteration of dynamic routing; and four routings.

import { latestOnly } from "../core/api.js";
import { card, h } from "../core/dom.js";
import { createImageNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine } from "../core/networks.js";
import { numberText } from "../core/scale.js";
import { keepSettings, settingOf } from "../core/settings.js";
import { currentImage, imageVersion } from "../core/state.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink } from "../widgets/canvas_image.js";
import { createChoices } from "../widgets/choices.js";
import { createPlayer } from "../widgets/player.js";
import { answerOf, createStrips, equalShares, isBounded, leadOf } from "../widgets/strips.js";
import { createTwins } from "./twins.js";

const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const NETWORKS = [["dynamic", "Small network"], ["draw", "Network of Draw"]]; // both have dynamic routing
const LITTLE = 1.25; // times an equal share: below it, the text names the parts that send most

export function create(stage) {
  const strips = createStrips(t("Agreement of each vote with the three best digits"));
  const shares = createBars({ labels: DIGITS, label: t("How many times an equal share each digit gets") });
  const activations = createBars({ labels: DIGITS, label: t("Activation of each digit in this iteration") });
  const player = createPlayer({ label: t("Iteration"), onChange: draw });
  player.element.dataset.tour = "votes";
  const picture = figure(createImage({ label: t("Your drawing"), resolution: 168 }), t("Your drawing"));
  const verdict = createVerdict();
  const rows = h("p", { class: "soft small" }, t("Rows: the three digits with the highest activations of this network in the last iteration. Dashed lines: an equal share, a tenth of what a part sends; at 10 × it sends all to one digit."));
  const text = h("p", { class: "soft small" }, t("Dynamic routing measures agreement by the scalar product of a vote and its digit's capsule. The products of all iterations are added up, and a softmax of the sums gives the shares of the next iteration. A short capsule has small products with all votes."));
  const [which, change] = [h("p", { class: "small which" }), h("p", { class: "small" })];
  const network = networkLine();
  const choice = createChoices({
    label: t("Network"), options: NETWORKS.map(([key, name]) => [key, t(name)]), value: settingOf("votes", "routing", NETWORKS.map(([key]) => key), "dynamic"), onChange: send,
  });
  const twins = createTwins();
  let response = null;
  let version = -1;

  stage.append(
    h("div", { class: "w12 toolbar" }, picture.element,
      h("div", { class: "tool" }, h("span", { class: "small soft" }, t("Network")), choice.element), verdict.element),
    card("w8 wide-first result", t("Agreement with dynamic routing"), t("each dot is the vote of one part for one digit"),
      which, player.element, change, strips.element, rows, text, network.element),
    h("div", { class: "w4 stack wide-first result" },
      card("", t("Share"), t("what a digit gets from all parts, in times an equal share (line)"), shares.element),
      card("", t("Activation"), t("length of the capsule; pale: in iteration 1"), activations.element,
        h("p", { class: "soft small" }, t("The small network was trained with cross-entropy, which compares the digits only with each other, so the others may stay high. The margin loss of the network of Draw penalizes each of them that is above 0.1.")))),
    ...twins.elements,
  );
  let shown = null; // the image and the twins, for files

  const notice = createImageNotice(stage);
  const query = latestOnly("api/votes", stage, (next, body) => {
    response = next;
    if (body.image === currentImage()) version = imageVersion();
    strips.load({ ...response, measure: t(response.measure), bounded: isBounded(response) });
    network.show(response.model, response.data);
    which.textContent = response.routing === "draw" ? t("This network routes little: in the small network, the answer gets a larger share.")
      : t("The small network comes first because it shows routing best: the answer gets a larger share than in the network of Draw. Its twins are below: the same network, trained with other routings.");
    shares.scale(Math.max(2, ...response.iterations.flatMap((step) => step.share.map((share) => equalShares(step, share)))), 1);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    player.load(response.iterations.length, still ? response.iterations.length - 1 : 0);
    if (!still) player.start();
  }, notice);
  const compare = latestOnly("api/twins", stage, (answer, { image }) => {
    shown = { image, twins: answer.twins };
    twins.load(answer);
  }, notice);

  function draw(index) {
    if (!response) return;
    const { iterations } = response;
    const [best, step] = [answerOf(response), iterations[index]];
    const winner = step.activation.indexOf(Math.max(...step.activation));
    strips.show(step);
    shares.update(step.share.map((share) => equalShares(step, share)), { [best]: "var(--accent)" });
    activations.update(step.activation, { [winner]: "var(--accent)" }, iterations[0].activation);
    verdict.set(String(winner), t("has the highest activation in iteration {index} of {count}", { index: index + 1, count: iterations.length }));
    change.textContent = describeChange(response, index);
  }

  function send() {
    if (!currentImage()) {
      notice(null);
      return;
    }
    player.stop();
    picture.draw(ink(currentImage()));
    keepSettings("votes", { routing: choice.value });
    query({ image: currentImage(), routing: choice.value });
  }

  return {
    show: () => {
      if (version === imageVersion()) return;
      send();
      if (currentImage()) compare({ image: currentImage() });
    },
    hide: () => {
      player.stop();
      twins.stop();
    },
    exports: () => response && shown && {
      table: [["network", "measure", "iteration", "digit", "activation", "agreement", "share"],
        ...[response, ...shown.twins].flatMap(({ model, data, measure, iterations }) => iterations.flatMap((step, index) =>
          step.activation.map((activation, digit) => [`${model}-${data}`, measure, index + 1, digit, activation, step.agreement[digit], step.share[digit]])))],
      data: { image: shown.image, votes: response, twins: shown.twins },
    },
  };
}

// What routing has done up to an iteration of a response.
export function describeChange(response, index) {
  const { shown, iterations } = response;
  const [best, first, step] = [answerOf(response), iterations[0], iterations[index]];
  const [all, top] = [equalShares(step, step.share[best]), topTenth(step, shown.indexOf(best))];
  const values = {
    best, all: all.toFixed(2), top: top.toFixed(1), start: numberText(leadOf(first, best), 2), lead: numberText(leadOf(step, best), 2), before: others(first, best), now: others(step, best),
  };
  if (index === 0) return t("Iteration 1: every part sends the same share to all digits.");
  return [
    t("{best} now gets {all} times an equal share.", values),
    ...(all < LITTLE && top > all ? [t("The tenth of the parts that agrees best with it sends it {top} times an equal share.", values)] : []),
    t("Its activation is {lead} above that of the next digit; in iteration 1, it was {start} above. The mean of the other digits has gone from {before} to {now}.", values),
  ].join(t(" "));
}

// The mean activation of the digits but one.
function others({ activation }, best) {
  const rest = activation.filter((_, digit) => digit !== best);
  return (rest.reduce((sum, value) => sum + value, 0) / rest.length).toFixed(2);
}

// What the tenth of the parts with the highest agreement sends to the digit of a row on average, in equal shares.
function topTenth(step, row) {
  const [agreements, couplings] = [step.agreements[row], step.couplings[row]];
  const order = agreements.map((_, part) => part).sort((one, two) => agreements[two] - agreements[one]);
  const top = order.slice(0, Math.max(1, Math.floor(order.length / 10)));
  return top.reduce((sum, part) => sum + equalShares(step, couplings[part]), 0) / top.length;
}

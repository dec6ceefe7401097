// View 4: how well the votes agree with the three best digits, in each iteration of a routing; and four twins.

import { latestOnly } from "../core/api.js";
import { card, h } from "../core/dom.js";
import { createImageNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine, sizeText } from "../core/networks.js";
import { shortNumber } from "../core/scale.js";
import { keepSettings, settingOf } from "../core/settings.js";
import { currentImage, imageVersion } from "../core/state.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink } from "../widgets/canvas_image.js";
import { createChoices } from "../widgets/choices.js";
import { createPlayer } from "../widgets/player.js";
import { createStrips, equalShares, isBounded } from "../widgets/strips.js";
import { createTwins, ROUTINGS } from "./twins.js";

const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const LITTLE = 1.25; // times an equal share: below it, the text says that little of the weight moves

export function create(stage) {
  const agreement = {
    dynamic: t("Dynamic routing takes the scalar product of a vote and the capsule. A part sends most to the digit with which its scalar products add up to most. A short capsule has small scalar products with all votes, so the dots of a digit that is not there lie near 0."),
    em: t("EM fits a Gaussian to the votes for each digit and takes the logarithm of its density at a vote. A part sends most to the digit for which density times activation is largest."),
    kmeans: t("k-means takes the cosine of the angle between a vote and the mean of the votes. A part sends most to the digit with the largest cosine."),
    heinsen: t("The routing of Heinsen (2019) fits a Gaussian to the votes for each digit and takes the logarithm of its density at a vote. A part sends most to the digit for which density times activation is largest."),
  };
  const strips = createStrips(t("Agreement of each vote with the three best digits"));
  const shares = createBars({ labels: DIGITS, label: t("How many times an equal share each digit gets") });
  const activations = createBars({ labels: DIGITS, label: t("Activation of each digit in this iteration") });
  const player = createPlayer({ label: t("Iteration"), onChange: draw });
  player.element.dataset.tour = "votes";
  const picture = figure(createImage({ label: t("Your drawing"), resolution: 168 }), t("Your drawing"));
  const verdict = createVerdict();
  const rows = h("p", { class: "soft small" }, t("Rows: the three digits with the highest activation in the last iteration. Solid lines: the mean over all votes, each weighted by what its part sends to the digit. Dashed lines: an equal share, a tenth of what a part sends."));
  const [text, change] = [h("p", { class: "soft small" }), h("p", { class: "small" })];
  const which = h("p", { class: "small which" });
  const network = networkLine();
  const routing = createChoices({
    label: t("Routing"), options: ROUTINGS.map(([key, name]) => [key, t(name)]), value: settingOf("votes", "routing", ROUTINGS.map(([key]) => key), "dynamic"), onChange: send,
  });
  const twins = createTwins();
  let response = null;
  let version = -1;

  stage.append(
    h("div", { class: "w12 toolbar" }, picture.element,
      h("div", { class: "tool" }, h("span", { class: "small soft" }, t("Routing")), routing.element), verdict.element),
    card("w8 wide-first result", t("Agreement"), t("each dot is the vote of one part for one digit"),
      which, player.element, change, strips.element, rows, text, network.element),
    h("div", { class: "w4 stack wide-first result" },
      card("", t("Weight"), t("what a digit gets from all parts, in times an equal share"), shares.element),
      card("", t("Activation"), t("pale: in iteration 1"), activations.element)),
    ...twins.elements,
  );
  let shown = null; // the image and the twins, for files

  const notice = createImageNotice(stage);
  const query = latestOnly("api/votes", stage, (next, body) => {
    response = next;
    if (body.image === currentImage()) version = imageVersion();
    strips.load({ ...response, measure: t(response.measure), bounded: isBounded(response) });
    network.show(response.model, response.data);
    nameNetwork(body.routing, `${response.model}-${response.data}`);
    shares.scale(Math.max(2, ...response.iterations.flatMap((step) => step.share.map((share) => equalShares(step, share)))), 1);
    text.textContent = agreement[body.routing];
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    player.load(response.iterations.length, still ? response.iterations.length - 1 : 0);
    if (!still) player.start();
  }, notice);
  const compare = latestOnly("api/twins", stage, (answer, { image }) => {
    shown = { image, twins: answer.twins };
    twins.load(answer);
  }, notice);

  // The networks of the page that have the same routing differ in size and in how much they route.
  async function nameNetwork(name, id) {
    const size = await sizeText(id).catch(() => "");
    if (name !== routing.value) return;
    which.textContent = {
      dynamic: t("This is the network of Draw, with {size} weights. It routes little: the smaller network with dynamic routing, below, moves more weight.", { size }),
      em: t("This is a matrix capsule network with {size} weights, not the network with EM routing below.", { size }),
    }[name] ?? t("This is one of the four networks below, with {size} weights.", { size });
  }

  function draw(index) {
    if (!response) return;
    const { shown: [best], iterations } = response;
    const step = iterations[index];
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
    keepSettings("votes", { routing: routing.value });
    query({ image: currentImage(), routing: routing.value });
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
export function describeChange({ shown: [best], iterations, measure: name }, index) {
  const [first, step] = [iterations[0], iterations[index]];
  const values = {
    best, measure: t(name), before: shortNumber(first.agreement[best]), now: shortNumber(step.agreement[best]),
    start: first.activation[best].toFixed(2), activation: step.activation[best].toFixed(2),
    top: topTenth(step).toFixed(1), all: equalShares(step, step.share[best]).toFixed(2),
  };
  if (index === 0) return t("Iteration 1: every part sends the same share to all digits. The activation of {best} is {start}, and the mean {measure} is {before}.", values);
  return [
    t("The tenth of the parts that agrees best with {best} now sends it {top} times an equal share.", values),
    values.all < LITTLE
      ? t("Most parts change little: together they send it {all} times an equal share.", values)
      : t("All parts together send it {all} times an equal share.", values),
    step.activation[best] >= first.activation[best]
      ? t("Its activation has risen from {start} to {activation}.", values)
      : t("Its activation has fallen from {start} to {activation}.", values),
    step.agreement[best] >= first.agreement[best]
      ? t("The mean {measure} has risen from {before} to {now}.", values)
      : t("The mean {measure} has fallen from {before} to {now}.", values),
  ].join(t(" "));
}

// What the tenth of the parts with the highest agreement sends to the best digit on average, in equal shares.
function topTenth(step) {
  const [agreements, couplings] = [step.agreements[0], step.couplings[0]];
  const order = agreements.map((_, part) => part).sort((one, two) => agreements[two] - agreements[one]);
  const top = order.slice(0, Math.max(1, Math.floor(order.length / 10)));
  return top.reduce((sum, part) => sum + equalShares(step, couplings[part]), 0) / top.length;
}

// View 4: how well the votes agree with the three best digits, in each iteration of a routing.

import { latestOnly } from "../core/api.js";
import { card, h } from "../core/dom.js";
import { createImageNotice, createVerdict } from "../core/feedback.js";
import { networkLine } from "../core/networks.js";
import { numberText } from "../core/scale.js";
import { keepSettings, settingOf } from "../core/settings.js";
import { currentImage, imageVersion } from "../core/state.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink } from "../widgets/canvas_image.js";
import { createChoices } from "../widgets/choices.js";
import { createPlayer } from "../widgets/player.js";
import { createStrips } from "../widgets/strips.js";

const ROUTINGS = [["dynamic", "Dynamic"], ["em", "EM"], ["kmeans", "k-means"]];
const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

const AGREEMENT = {
  dynamic: "Dynamic routing takes the scalar product of a vote and the capsule. A part sends most to the digit with which "
    + "its scalar products add up to most.",
  em: "EM fits a Gaussian to the votes for each digit and takes the logarithm of its density at a vote. A part sends most "
    + "to the digit for which density times activation is largest.",
  kmeans: "k-means takes the cosine of the angle between a vote and the mean of the votes. A part sends most to the digit "
    + "with the largest cosine. No network here was trained with k-means, so there is no prediction to show.",
};

export function create(stage) {
  const strips = createStrips("Agreement of each vote with the three best digits");
  const shares = createBars({ labels: DIGITS, label: "Share of all weight that each digit gets" });
  const activations = createBars({ labels: DIGITS, label: "Activation of each digit in this iteration" });
  const player = createPlayer({ label: "Iteration", onChange: draw });
  player.element.dataset.tour = "votes";
  const picture = figure(createImage({ label: "Your drawing", resolution: 168 }), "Your drawing");
  const verdict = createVerdict();
  const [text, change] = [h("p", { class: "soft small" }), h("p", { class: "small" })];
  const network = networkLine();
  const routing = createChoices({
    label: "Routing", options: ROUTINGS, value: settingOf("votes", "routing", ROUTINGS.map(([key]) => key), "dynamic"), onChange: send,
  });
  const activationCard = card("", "Activation", "in this iteration", activations.element);
  let response = null;
  let version = -1;

  stage.append(
    h("div", { class: "w12 toolbar" }, picture.element,
      h("div", { class: "tool" }, h("span", { class: "small soft" }, "Routing"), routing.element), verdict.element),
    card("w8 wide-first result", "Agreement", "each dot is the vote of one part; larger: the part sends more",
      player.element, strips.element, change, text, network.element),
    h("div", { class: "w4 stack wide-first result" },
      card("", "Weight", "share of all that the parts send", shares.element), activationCard),
  );

  const notice = createImageNotice(stage);
  const query = latestOnly("api/votes", stage, (next, body) => {
    response = next;
    if (body.image === currentImage()) version = imageVersion();
    strips.load(response);
    network.show(response.model, response.data);
    text.textContent = AGREEMENT[body.routing];
    activationCard.hidden = !response.trained;
    player.load(response.iterations.length, 0);
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) player.start();
  }, notice);

  function draw(index) {
    if (!response) return;
    const { shown: [best], iterations, trained, measure } = response;
    const step = iterations[index];
    strips.show(step);
    shares.update(step.share, { [best]: "var(--accent)" });
    activations.update(step.activation, { [highest(step.activation)]: "var(--accent)" });
    const last = iterations.length - 1;
    if (trained) verdict.set(String(highest(step.activation)), `has the highest activation in iteration ${index + 1} of ${last + 1}`);
    else verdict.set("", "");
    change.textContent = describeChange(best, measure, iterations[0].agreement[best], step.agreement[best], index);
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
    show: () => version !== imageVersion() && send(),
    hide: player.stop,
  };
}

function highest(values) {
  return values.indexOf(Math.max(...values));
}

function describeChange(best, measure, before, now, index) {
  if (index === 0) return `Iteration 1: every part sends the same share to all digits. The mean ${measure} for ${best} is ${numberText(before, 3)}.`;
  return `The mean ${measure} for ${best} has ${now >= before ? "risen" : "fallen"} from ${numberText(before, 3)} to ${numberText(now, 3)}.`;
}

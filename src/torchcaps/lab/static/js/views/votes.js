// View 4: the votes for the three likeliest digits, iteration by iteration.

import { card, h } from "../dom.js";
import { createBars } from "../bars.js";
import { createChoices } from "../choices.js";
import { createHistograms } from "../histogram.js";
import { createImage, figure, ink } from "../canvas_image.js";
import { createImageNotice } from "../notice.js";
import { createPlayer } from "../player.js";
import { createScatter } from "../scatter.js";
import { createSlider } from "../slider.js";
import { createVerdict } from "../verdict.js";
import { category } from "../palette.js";
import { currentImage, imageVersion } from "../state.js";
import { newest } from "../api.js";

const ROUTINGS = [["dynamic", "Dynamic"], ["kmeans", "k-means"], ["em", "EM"]];

const UNTRAINED = "The network was trained with dynamic routing and has not learned for this one: its activations mean little here.";
const AGREEMENT = {
  dynamic: "Dynamic routing favors votes that point the way of their mean, and long votes count more: those far out on its side win.",
  kmeans: `k-means favors the votes nearest in direction to their mean, long or short. ${UNTRAINED}`,
  em: `EM favors votes that lie where a Gaussian around their mean is dense: tight clusters win. It sees directions only. ${UNTRAINED}`,
};

export function create(stage) {
  const scatter = createScatter("Votes in the plane of their two principal axes");
  const histograms = createHistograms("Distances of votes to the mean of their class");
  const bars = createBars({ labels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], label: "Activation of each class at this iteration" });
  const player = createPlayer({ label: "Iteration", onChange: draw });
  const picture = figure(createImage({ label: "The image of Draw", resolution: 168 }), "From Draw");
  const verdict = createVerdict();
  const axes = h("p", { class: "soft small" });
  const routing = createChoices({ label: "Routing", options: ROUTINGS, value: "dynamic", onChange: send });
  const length = createSlider({ label: "Iterations", min: 1, max: 10, step: 1, value: 5, onInput: send });
  let answer = null;
  let version = -1;

  stage.append(
    h("div", { class: "w12 toolbar" }, picture.element,
      h("div", { class: "tool" }, h("span", { class: "small soft" }, "Routing"), routing.element),
      h("div", { class: "tool grow" }, length.element), verdict.element),
    card("w7 wide-first result", "Votes and their means", "stronger and larger: more weight", player.element, scatter.element, axes),
    h("div", { class: "w5 stack wide-first result" },
      card("", "Distance to the mean", "weighted by assignment, root scale", histograms.element),
      card("", "Activation", "at this iteration", bars.element)),
  );

  const notice = createImageNotice(stage);
  const ask = newest("api/votes", stage, (next, body) => {
    answer = next;
    if (body.image === currentImage()) version = imageVersion();
    const classes = answer.iterations[0].means.map((mean) => mean.class);
    scatter.load(answer.points, answer.iterations);
    histograms.load(classes, answer.iterations);
    axes.textContent = `${AGREEMENT[body.routing]} The two axes show ${percent(answer.explained_variance[0] + answer.explained_variance[1])} of the votes’ variance; `
      + `drawn are the votes of the ${answer.points.length / classes.length} strongest parts for ${classes.join(", ")}, and the thin line is each mean’s path.`;
    verdict.element.classList.toggle("plain", body.routing !== "dynamic"); // no verdict of a network that learned to give one
    player.load(answer.iterations.length, 0);
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) player.start();
  }, notice);

  function draw(index) {
    if (!answer) return;
    const step = answer.iterations[index];
    scatter.show(step);
    histograms.show(step);
    const best = step.activation.indexOf(Math.max(...step.activation));
    const marks = Object.fromEntries(step.means.map((mean) => [mean.class, category(mean.class)]));
    bars.update(step.activation, marks);
    verdict.set(String(best), `is ahead after iteration ${index + 1} of ${answer.iterations.length}`);
  }

  function send() {
    if (!currentImage()) {
      notice(null);
      return;
    }
    player.stop();
    picture.draw(ink(currentImage()));
    ask({ image: currentImage(), routing: routing.value, iterations: length.value });
  }

  return {
    show: () => version !== imageVersion() && send(),
    hide: player.stop,
  };
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}

// View 4: the votes for the three most likely digits, for each routing iteration.

import { latestOnly } from "../core/api.js";
import { card, h } from "../core/dom.js";
import { createImageNotice, createVerdict } from "../core/feedback.js";
import { category } from "../core/palette.js";
import { currentImage, imageVersion } from "../core/state.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink } from "../widgets/canvas_image.js";
import { createChoices } from "../widgets/choices.js";
import { createHistograms } from "../widgets/histogram.js";
import { createPlayer } from "../widgets/player.js";
import { createScatter } from "../widgets/scatter.js";
import { createSlider } from "../widgets/slider.js";

const ROUTINGS = [["dynamic", "Dynamic"], ["kmeans", "k-means"], ["em", "EM"]];

const UNTRAINED = "The network was trained with dynamic routing, so its activations with this routing mean little.";
const AGREEMENT = {
  dynamic: "Dynamic routing uses the scalar product: votes in the direction of their mean gain weight, long ones more.",
  kmeans: `k-means uses the direction: votes at a small angle to their mean gain weight, at any length. ${UNTRAINED}`,
  em: `EM fits a Gaussian to the directions of the votes: votes in dense regions gain weight. ${UNTRAINED}`,
};

export function create(stage) {
  const scatter = createScatter("Votes along their two principal axes");
  const histograms = createHistograms("Distances of the votes to the mean of their class");
  const bars = createBars({ labels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], label: "Activation of each class in this iteration" });
  const player = createPlayer({ label: "Iteration", onChange: draw });
  const picture = figure(createImage({ label: "Your drawing", resolution: 168 }), "Your drawing");
  const verdict = createVerdict();
  const text = h("p", { class: "soft small" });
  const routing = createChoices({ label: "Routing", options: ROUTINGS, value: "dynamic", onChange: send });
  const iterations = createSlider({ label: "Iterations", min: 1, max: 10, step: 1, value: 5, onInput: send });
  let response = null;
  let version = -1;

  stage.append(
    h("div", { class: "w12 toolbar" }, picture.element,
      h("div", { class: "tool" }, h("span", { class: "small soft" }, "Routing"), routing.element),
      h("div", { class: "tool grow" }, iterations.element), verdict.element),
    card("w7 wide-first result", "Votes and their means", "larger and stronger: more weight",
      player.element, scatter.element, text),
    h("div", { class: "w5 stack wide-first result" },
      card("", "Distance to the mean", "weighted by coupling, square-root scale", histograms.element),
      card("", "Activation", "in this iteration", bars.element)),
  );

  const notice = createImageNotice(stage);
  const query = latestOnly("api/votes", stage, (next, body) => {
    response = next;
    if (body.image === currentImage()) version = imageVersion();
    const classes = response.iterations[0].means.map((mean) => mean.class);
    scatter.load(response.points, response.iterations);
    histograms.load(classes, response.iterations);
    text.textContent = `${AGREEMENT[body.routing]} ${describePlot(response, classes)}`;
    verdict.element.classList.toggle("plain", body.routing !== "dynamic"); // no emphasis for an untrained routing
    player.load(response.iterations.length, 0);
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) player.start();
  }, notice);

  function draw(index) {
    if (!response) return;
    const step = response.iterations[index];
    scatter.show(step);
    histograms.show(step);
    const best = step.activation.indexOf(Math.max(...step.activation));
    const marks = Object.fromEntries(step.means.map((mean) => [mean.class, category(mean.class)]));
    bars.update(step.activation, marks);
    verdict.set(String(best), `has the highest activation after iteration ${index + 1} of ${response.iterations.length}`);
  }

  function send() {
    if (!currentImage()) {
      notice(null);
      return;
    }
    player.stop();
    picture.draw(ink(currentImage()));
    query({ image: currentImage(), routing: routing.value, iterations: iterations.value });
  }

  return {
    show: () => version !== imageVersion() && send(),
    hide: player.stop,
  };
}

function describePlot({ points, explained_variance: [first, second] }, classes) {
  const percent = Math.round((first + second) * 100);
  return `The two axes show ${percent} % of the variance. The plot shows the votes of the ${points.length / classes.length} `
    + `strongest parts for ${classes.join(", ")}; the thin lines are the paths of the means.`;
}

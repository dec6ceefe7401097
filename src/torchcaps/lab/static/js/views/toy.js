// View 5: a toy from any viewpoint, recognized by capsules and by a CNN.

import { getCached, latestOnly } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { networkLine } from "../core/networks.js";
import { keepSettings, numberOf } from "../core/settings.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, gray } from "../widgets/canvas_image.js";
import { createChoices } from "../widgets/choices.js";
import { createPoseMatrix } from "../widgets/pose_matrix.js";
import { createRing } from "../widgets/ring.js";
import { createSlider } from "../widgets/slider.js";

const SPEED = 40; // degrees per second of the automatic rotation
const NETWORKS = { capsules: "the capsules", cnn: "the CNN" };

export async function create(stage) {
  const toys = await getCached("api/toys");
  const { categories, trained } = toys;
  const eyes = ["Left eye", "Right eye"].map((name) => figure(createImage({ label: name }), name));
  const ring = createRing({ label: "Azimuth", onTurn: () => { stop(); send(); } });
  const category = createChoices({
    label: "Category", options: categories.map((name, index) => [index, name]), value: numberOf("toy", "category", [0, categories.length - 1], 0),
    onChange: () => { matrix.clear(); send(); },
  });
  const instance = createSlider({
    label: "Instance", min: 0, max: toys.instances - 1, step: 1, value: numberOf("toy", "instance", [0, toys.instances - 1], trained.instances[0] ?? 0),
    format: (value) => `${value}, ${trained.instances.includes(value) ? "" : "not "}used in training`,
    onInput: () => { matrix.clear(); send(); },
  });
  const elevation = createSlider({
    label: "Elevation", min: 20, max: 80, step: 1, value: numberOf("toy", "elevation", [20, 80], 45),
    format: (value) => `${value}°${isOutside(value, trained.elevations) ? ", outside the training range" : ""}`,
    onInput: send,
  });
  const lighting = createSlider({
    label: "Lighting", min: 0, max: toys.lightings.length - 1, step: 1, value: numberOf("toy", "lighting", [0, 5], 0),
    format: (value) => `${value + 1} of ${toys.lightings.length}`, onInput: send,
  });
  const rotate = button("Rotate", () => (frame === null ? start() : stop()), "main");
  const matrix = createPoseMatrix("Pose matrix of the predicted class");
  const [capsules, cnn] = Object.keys(NETWORKS).map((key) => ({
    key, verdict: createVerdict(), bars: createBars({ labels: categories, label: `Scores of ${NETWORKS[key]}` }),
  }));
  const moved = h("p", { class: "soft small" });
  let frame = null; // the pending animation frame while rotating

  ring.mark(toys.azimuths, trained.azimuths);
  stage.append(
    h("div", { class: "w12 toolbar" }, category.element, rotate),
    card("toy-seen", "The toy", "a stereo pair, the input of both networks",
      h("div", { class: "pair" }, eyes.map((eye) => eye.element))),
    card("toy-turn", "Azimuth", "thick ticks: used in training", ring.element,
      instance.element, elevation.element, lighting.element),
    card("toy-capsules result", "Capsules", "softmax of the logits", capsules.verdict.element, capsules.bars.element,
      networkLine("matrix_capsnet_small", "toys").element),
    card("toy-cnn result", "CNN", "softmax of the logits", cnn.verdict.element, cnn.bars.element,
      networkLine("pooled_cnn", "toys").element),
    card("toy-pose result", "Pose matrix", "lines: recent values, each from its lowest to its highest", matrix.element, moved),
  );

  const query = latestOnly("api/toy", stage, (response, body) => {
    const label = categories[body.category];
    eyes.forEach((eye, side) => {
      eye.draw(gray(response.image[side]), `${side ? "Right" : "Left"} eye: ${label} from ${Math.round(body.azimuth)}°`);
    });
    const share = matrix.update(response.capsules.pose);
    moved.textContent = `Since you chose this toy, the pose has moved by at most ${(share * 100).toFixed(1)} % of its norm.`;
    for (const { key, verdict, bars } of [capsules, cnn]) {
      const { best, scores } = response[key];
      const correct = best === body.category;
      bars.update(scores, { [best]: correct ? "var(--accent)" : "var(--soft)" });
      verdict.set(categories[best], correct ? "correct" : `wrong: it is ${withArticle(label)}`);
      verdict.element.classList.toggle("wrong", !correct);
    }
  }, createNotice(stage));

  function send() {
    const body = {
      category: category.value, instance: instance.value, azimuth: Math.round(ring.degrees * 10) / 10 % 360,
      elevation: elevation.value, lighting: lighting.value,
    };
    if (frame === null) keepSettings("toy", body);
    query(body);
  }

  function start() {
    rotate.textContent = "Stop";
    let last = performance.now();
    const tick = (now) => {
      ring.set(ring.degrees + ((now - last) / 1000) * SPEED);
      last = now;
      send();
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  }

  function stop() {
    if (frame === null) return;
    cancelAnimationFrame(frame);
    frame = null;
    send();
    rotate.textContent = "Rotate";
  }

  ring.set(numberOf("toy", "azimuth", [0, 360], 20));
  send();
  return { hide: stop };
}

function isOutside(value, known) {
  return known.length > 0 && (value < Math.min(...known) || value > Math.max(...known));
}

function withArticle(noun) {
  return `${/^[aeiou]/.test(noun) ? "an" : "a"} ${noun}`;
}

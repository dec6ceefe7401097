// View 5: a toy turned under the camera, read by capsules and by a CNN.

import { button, card, h } from "../dom.js";
import { createBars } from "../bars.js";
import { createChoices } from "../choices.js";
import { createImage, figure, gray } from "../canvas_image.js";
import { createNotice } from "../notice.js";
import { createPoseMatrix } from "../pose_matrix.js";
import { createRing } from "../ring.js";
import { createSlider } from "../slider.js";
import { createVerdict } from "../verdict.js";
import { getOnce, newest } from "../api.js";

const SPEED = 40; // degrees per second while turning by itself

export async function create(stage) {
  const world = await getOnce("api/toys");
  const { categories, trained } = world;
  const eyes = ["Left eye", "Right eye"].map((name) => figure(createImage({ label: name }), name));
  const ring = createRing({ label: "Azimuth", onTurn: () => { halt(); send(); } });
  const category = createChoices({
    label: "Category", options: categories.map((name, index) => [index, name]), value: 0,
    onChange: () => { matrix.forget(); send(); },
  });
  const instance = createSlider({
    label: "Instance", min: 0, max: world.instances - 1, step: 1, value: trained.instances[0] ?? 0,
    format: (value) => `${value}, ${trained.instances.includes(value) ? "seen in training" : "never seen"}`,
    onInput: () => { matrix.forget(); send(); },
  });
  const elevation = createSlider({
    label: "Elevation", min: 20, max: 80, step: 1, value: 45, format: (value) => `${value}°${range(value, trained.elevations)}`, onInput: send,
  });
  const lighting = createSlider({
    label: "Lighting", min: 0, max: world.lightings.length - 1, step: 1, value: 0, format: (value) => `${value + 1} of ${world.lightings.length}`, onInput: send,
  });
  const turn = button("Turn it", () => (turning ? halt() : start()), "main");
  const matrix = createPoseMatrix("Pose matrix of the strongest class capsule");
  const readers = ["capsules", "cnn"].map((key) => ({
    key, verdict: createVerdict(), bars: createBars({ labels: categories, label: `Scores of ${key === "cnn" ? "the CNN" : "the capsules"}` }),
  }));
  let turning = null;

  ring.mark(world.azimuths, trained.azimuths);
  stage.append(
    h("div", { class: "w12 toolbar" }, category.element, turn),
    card("toy-seen", "The toy", "a stereo pair, as the networks get it", h("div", { class: "pair" }, eyes.map((eye) => eye.element))),
    card("toy-turn", "Azimuth", "orange: seen in training", ring.element,
      instance.element, elevation.element, lighting.element),
    card("toy-capsules result", "Capsules", "share of each class", readers[0].verdict.element, readers[0].bars.element),
    card("toy-cnn result", "CNN", "share of each class", readers[1].verdict.element, readers[1].bars.element),
    card("toy-pose result", "Pose matrix", "moves with the view; lines show its past", matrix.element),
  );

  const ask = newest("api/toy", stage, (answer, body) => {
    eyes.forEach((eye, side) => eye.draw(gray(answer.image[side]), `${side ? "Right" : "Left"} eye: ${categories[body.category]} from ${Math.round(body.azimuth)}°`));
    matrix.update(answer.capsules.pose);
    for (const { key, verdict, bars } of readers) {
      const { best, scores } = answer[key];
      const right = best === body.category;
      bars.update(scores, { [best]: right ? "var(--accent)" : "var(--soft)" });
      verdict.set(categories[best], right ? "right" : `wrong: it is ${withArticle(categories[body.category])}`);
      verdict.element.classList.toggle("wrong", !right);
    }
  }, createNotice(stage));

  function send() {
    ask({
      category: category.value, instance: instance.value, azimuth: Math.round(ring.degrees * 10) / 10 % 360,
      elevation: elevation.value, lighting: lighting.value,
    });
  }

  function start() {
    turn.textContent = "Stop";
    let last = performance.now();
    const tick = (now) => {
      ring.set(ring.degrees + ((now - last) / 1000) * SPEED);
      last = now;
      send();
      turning = requestAnimationFrame(tick);
    };
    turning = requestAnimationFrame(tick);
  }

  function halt() {
    cancelAnimationFrame(turning);
    turning = null;
    turn.textContent = "Turn it";
  }

  ring.set(20);
  send();
  return { hide: halt };
}

function range(value, seen) {
  if (!seen.length) return "";
  return value < Math.min(...seen) || value > Math.max(...seen) ? ", beyond training" : "";
}

function withArticle(noun) {
  return `${/^[aeiou]/.test(noun) ? "an" : "a"} ${noun}`;
}

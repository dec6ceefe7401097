// View 2: the 16 numbers of the winning capsule as sliders, and the reconstruction from them.

import { latestOnly } from "../core/api.js";
import { button, card, h, icon } from "../core/dom.js";
import { createImageNotice, createVerdict } from "../core/feedback.js";
import { currentImage, imageVersion, onRecognition } from "../core/state.js";
import { createImage, figure, ink } from "../widgets/canvas_image.js";
import { createOscillator } from "../widgets/oscillator.js";
import { createSlider } from "../widgets/slider.js";

const POSE_DIM = 16;
const RANGE = 0.6;

export function create(stage) {
  const drawing = figure(createImage({ label: "Your drawing" }), "Your drawing");
  const reconstruction = createImage({ label: "Reconstruction from the sliders", kind: "large" });
  const verdict = createVerdict();
  let original = null; // the pose of the drawing
  let target = null;
  let version = -1;
  let visible = false;
  let latest = null;

  const notice = createImageNotice(stage);
  const query = latestOnly("api/tweak", stage, (response) => reconstruction.draw(ink(response.reconstruction)), notice);
  const oscillator = createOscillator(RANGE, (dimension, value) => {
    sliders[dimension].set(value);
    send();
  }, updateButtons);

  const sliders = Array.from({ length: POSE_DIM }, (_, index) => createSlider({
    label: `${index + 1}`, min: -RANGE, max: RANGE, step: 0.01, value: 0, format: signedText, kind: "line",
    onInput: () => {
      const value = sliders[index].value; // read first: stop() resets an animated slider
      oscillator.stop();
      sliders[index].set(value);
      send();
    },
  }));
  sliders[4].input.dataset.tour = "tweak"; // the tour moves it
  sliders.forEach((slider, index) => slider.input.setAttribute("aria-label", `Dimension ${index + 1}`));
  const buttons = sliders.map((_, index) => h("button", {
    type: "button", class: "quiet mini", onclick: () => oscillator.toggle(index, sliders[index].value),
  }));
  const rows = sliders.map((slider, index) => h("div", { class: "dimension" }, slider.element, buttons[index]));

  stage.append(
    card("w4 result tweak-shown", "Reconstruction", "from the sliders only",
      verdict.element, reconstruction.element, drawing.element,
      h("div", { class: "row" }, button("Reset", reset, "main"), button("Random", random))),
    card("w8 result", "The capsule", "16 numbers; ▸ animates one of them", h("div", { class: "dimensions" }, rows)),
  );
  updateButtons(null);

  function load(response) {
    original = response.pose;
    target = response.best;
    version = imageVersion();
    drawing.draw(ink(currentImage()));
    reset();
  }

  function setSliders(pose) {
    const range = Math.max(RANGE, ...pose.map(Math.abs));
    pose.forEach((value, index) => sliders[index].set(value, [-range, range]));
  }

  function send() {
    if (target === null) return;
    const pose = sliders.map((slider) => slider.value);
    verdict.set(String(target), describeLength(Math.hypot(...pose), Math.hypot(...original)));
    query({ pose, target });
  }

  function reset() {
    if (!original) return;
    oscillator.stop();
    setSliders(original);
    send();
  }

  function random() {
    if (!original) return;
    oscillator.stop();
    setSliders(original.map((value) => Math.max(-RANGE, Math.min(RANGE, value + (Math.random() - 0.5) * 0.5))));
    send();
  }

  function updateButtons(active) {
    buttons.forEach((element, index) => {
      element.replaceChildren(icon(index === active ? "pause" : "play"));
      element.setAttribute("aria-label", `${index === active ? "Stop" : "Animate"} dimension ${index + 1}`);
      element.setAttribute("aria-pressed", String(index === active));
    });
  }

  function refresh() {
    if (visible && latest && version !== imageVersion()) load(latest);
    stage.classList.toggle("empty", version !== imageVersion()); // the sliders belong to another drawing
  }

  onRecognition((recognition, missing) => {
    notice(missing);
    latest = recognition;
    refresh();
  });
  return {
    show() { visible = true; refresh(); },
    hide() { visible = false; oscillator.stop(); },
  };
}

function describeLength(now, before) {
  const text = `length ${now.toFixed(2)}; in your drawing ${before.toFixed(2)}`;
  return now > 1 ? `${text}. No capsule is longer than 1.` : text;
}

function signedText(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

// View 2: the winning capsule's sixteen numbers as sliders, the reconstruction following.

import { button, card, h, icon } from "../dom.js";
import { createImage, figure, ink } from "../canvas_image.js";
import { createImageNotice } from "../notice.js";
import { createSlider } from "../slider.js";
import { createSwing } from "../swing.js";
import { createVerdict } from "../verdict.js";
import { currentImage, imageVersion, onReading } from "../state.js";
import { newest } from "../api.js";

const SIZE = 16;
const REACH = 0.6;

export function create(stage) {
  const before = figure(createImage({ label: "The image of Draw" }), "Drawn");
  const after = createImage({ label: "Reconstruction from the sliders", kind: "large" });
  const verdict = createVerdict();
  let original = null; // pose as the network found it
  let target = null;
  let version = -1;

  const notice = createImageNotice(stage);
  const ask = newest("api/tweak", stage, (answer) => after.draw(ink(answer.reconstruction)), notice);
  const swing = createSwing(REACH, (dimension, value) => {
    sliders[dimension].set(value);
    send();
  }, refreshPlay);

  const sliders = Array.from({ length: SIZE }, (_, index) => createSlider({
    label: `${index + 1}`, min: -REACH, max: REACH, step: 0.01, value: 0, format: signedText, kind: "line",
    onInput: () => {
      const wanted = sliders[index].value; // stopping puts a swinging slider back to where it began
      swing.stop();
      sliders[index].set(wanted);
      send();
    },
  }));
  sliders.forEach((slider, index) => slider.input.setAttribute("aria-label", `Dimension ${index + 1}`));
  const plays = sliders.map((_, index) => h("button", {
    type: "button", class: "quiet mini", onclick: () => swing.toggle(index, sliders[index].value),
  }));

  stage.append(
    card("w4 result tweak-shown", "Reconstruction", "from the sliders alone", verdict.element, after.element, before.element,
      h("div", { class: "row" }, button("Reset", reset, "main"), button("Random", random))),
    card("w8 result", "The capsule", "sixteen numbers; ▸ swings one of them to and fro",
      h("div", { class: "dimensions" }, sliders.map((slider, index) => h("div", { class: "dimension" }, slider.element, plays[index])))),
  );
  refreshPlay(null);

  function adopt(answer) {
    original = answer.pose;
    target = answer.best;
    version = imageVersion();
    before.draw(ink(currentImage()));
    verdict.set(String(target), `was ${answer.lengths[target].toFixed(2)} long in your drawing`);
    reset();
  }

  function place(pose) {
    const reach = Math.max(REACH, ...pose.map(Math.abs));
    pose.forEach((value, index) => sliders[index].set(value, [-reach, reach]));
  }

  function send() {
    if (target !== null) ask({ pose: sliders.map((slider) => slider.value), target });
  }

  function reset() {
    if (!original) return;
    swing.stop();
    place(original);
    send();
  }

  function random() {
    if (!original) return;
    swing.stop();
    place(original.map((value) => Math.max(-REACH, Math.min(REACH, value + (Math.random() - 0.5) * 0.5))));
    send();
  }

  function refreshPlay(moving) {
    plays.forEach((play, index) => {
      play.replaceChildren(icon(index === moving ? "pause" : "play"));
      play.setAttribute("aria-label", `${index === moving ? "Stop" : "Animate"} dimension ${index + 1}`);
      play.setAttribute("aria-pressed", String(index === moving));
    });
  }

  let shown = false;
  let latest = null;

  function refresh() {
    if (shown && latest && version !== imageVersion()) adopt(latest);
    stage.classList.toggle("empty", version !== imageVersion()); // the capsule of another drawing
  }

  onReading((reading, missing) => {
    notice(missing);
    latest = reading;
    refresh();
  });
  return {
    show() { shown = true; refresh(); },
    hide() { shown = false; swing.stop(); },
  };
}

function signedText(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

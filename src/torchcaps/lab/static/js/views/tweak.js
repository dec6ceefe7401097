// View 2: the 16 numbers of the winning capsule as strips of reconstructions and as sliders.

import { latestOnly } from "../core/api.js";
import { button, card, h, icon } from "../core/dom.js";
import { createImageNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { unpack } from "../core/pixels.js";
import { networkLine } from "../core/networks.js";
import { createKeeper, settingsOf } from "../core/settings.js";
import { currentImage, imageVersion, onRecognition } from "../core/state.js";
import { createImage, figure, ink } from "../widgets/canvas_image.js";
import { createOscillator } from "../widgets/oscillator.js";
import { createPictureStrip } from "../widgets/picture_strip.js";
import { createSlider } from "../widgets/slider.js";

const [POSE_DIM, SIZE] = [16, 28];
const RANGE = 0.6;
const LIMIT = 2; // of a number in an address
const OFFSETS = Array.from({ length: 11 }, (_, index) => (index - 5) / 20);

export function create(stage) {
  const drawing = figure(createImage({ label: t("Your drawing") }), t("Your drawing"));
  const reconstruction = createImage({ label: t("Reconstruction from the sliders"), kind: "large" });
  const verdict = createVerdict();
  let original = null; // the pose of the drawing
  let pose = null; // the pose that is shown; sliders round it
  let target = null;
  let version = -1;
  let visible = false;
  let latest = null;
  let drawnAgain = null; // the reconstruction that is shown

  const keep = createKeeper("tweak");
  const notice = createImageNotice(stage);
  const query = latestOnly("api/tweak", stage, (response) => {
    drawnAgain = response.reconstruction;
    reconstruction.draw(ink(drawnAgain));
    const images = unpack(response.strips, SIZE);
    rows.forEach(({ strip }, index) => strip.draw(images.slice(index * OFFSETS.length, (index + 1) * OFFSETS.length)));
  }, notice);
  const oscillator = createOscillator(RANGE, setNumber, updateButtons);

  const rows = Array.from({ length: POSE_DIM }, (_, index) => {
    const number = index + 1;
    const slider = createSlider({
      label: `${number}`, min: -RANGE, max: RANGE, step: 0.01, value: 0, format: signedText, kind: "line",
      onInput: (value) => {
        oscillator.stop(); // resets an animated slider
        setNumber(index, value);
      },
    });
    slider.input.setAttribute("aria-label", t("Dimension {number}", { number }));
    const strip = createPictureStrip({
      label: t("Reconstructions with dimension {number} from 0.25 less to 0.25 more", { number }), count: OFFSETS.length,
      onPick: (column) => {
        if (!pose) return;
        oscillator.stop();
        setNumber(index, clamp(pose[index] + OFFSETS[column]));
      },
      titleOf: (column) => (pose ? t("dimension {number}: {value}", { number, value: signedText(clamp(pose[index] + OFFSETS[column])) }) : ""),
    });
    const restore = h("button", {
      type: "button", class: "quiet mini", "aria-label": t("Reset dimension {number}", { number }), title: t("Reset dimension {number}", { number }),
      onclick: () => {
        oscillator.stop();
        if (original) setNumber(index, original[index]);
      },
    }, icon("reset"));
    const animate = h("button", { type: "button", class: "quiet mini", onclick: () => pose && oscillator.toggle(index, pose[index]) });
    const element = h("div", { class: "dimension" }, strip.element, slider.element, restore, animate);
    return { slider, strip, restore, animate, element };
  });
  rows[4].slider.input.dataset.tour = "tweak"; // the tour moves it
  const ends = [h("span", {}), h("span", {})]; // the numbers at both ends of all sliders

  stage.append(
    card("tweak-shown result", t("Reconstruction"), t("from the 16 numbers only"),
      verdict.element, reconstruction.element, drawing.element,
      h("div", { class: "row" }, button(t("Reset all"), reset, "main"), button(t("Random"), random))),
    card("tweak-strips result", t("The capsule"), t("16 numbers; in each row one of them is changed, the others stay"),
      h("p", { class: "soft small" },
        t("Look along a row to see what its number changes. Click a picture to set the number. The mark on a slider is the number of your drawing; ↺ goes back to it, ▸ moves the slider up and down.")),
      h("div", { class: "dimensions" },
        h("div", { class: "dimension offsets", "aria-hidden": "true" },
          h("div", { class: "offset-row" }, OFFSETS.map((offset) => h("span", {}, offset ? shortText(offset) : t("now")))),
          h("div", { class: "slider-ends" }, ends)),
        rows.map((row) => row.element)),
      networkLine("capsnet_small", "mnist").element),
  );
  updateButtons(null);

  function load(response) {
    const opening = original === null;
    original = response.pose;
    target = response.best;
    version = imageVersion();
    drawing.draw(ink(currentImage()));
    const kept = (settingsOf("tweak").get("pose") ?? "").split("_").map(Number);
    const usable = opening && kept.length === POSE_DIM && kept.every((value) => Math.abs(value) <= LIMIT);
    if (usable) setPose(kept);
    else reset();
  }

  // Shows the whole pose, with sliders wide enough for it.
  function setPose(next) {
    pose = [...next];
    const range = Math.max(RANGE, ...pose.map(Math.abs), ...original.map(Math.abs));
    ends.forEach((end, side) => { end.textContent = signedText(side ? range : -range); });
    rows.forEach(({ slider }, index) => {
      slider.set(pose[index], [-range, range]);
      slider.mark(original[index]);
    });
    send();
  }

  function setNumber(index, value) {
    if (!pose) return;
    pose[index] = value;
    rows[index].slider.set(value);
    send();
  }

  // Within the range of the sliders.
  function clamp(value) {
    const limit = Number(rows[0].slider.input.max);
    return Math.max(-limit, Math.min(limit, value));
  }

  function send() {
    rows.forEach(({ restore }, index) => { restore.disabled = pose[index] === original[index]; });
    verdict.set(String(target), describeLength(Math.hypot(...pose), Math.hypot(...original)));
    const numbers = pose.map((value) => Number(value.toFixed(4)));
    const changed = pose.some((value, index) => value !== original[index]);
    if (!oscillator.active) keep(changed ? { pose: numbers.join("_") } : {});
    query({ pose: numbers, target });
  }

  function reset() {
    if (!original) return;
    oscillator.stop();
    setPose(original);
  }

  function random() {
    if (!original) return;
    oscillator.stop();
    setPose(original.map((value) => Math.max(-RANGE, Math.min(RANGE, value + (Math.random() - 0.5) * 0.5))));
  }

  function updateButtons(active) {
    rows.forEach(({ animate }, index) => {
      animate.replaceChildren(icon(index === active ? "pause" : "play"));
      animate.setAttribute("aria-label", t(index === active ? "Stop dimension {number}" : "Animate dimension {number}", { number: index + 1 }));
      animate.setAttribute("aria-pressed", String(index === active));
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
    exports: () => pose && {
      table: [["dimension", "value", "in_drawing"], ...pose.map((value, index) => [index + 1, value, original[index]])],
      data: { digit: target, pose, original, reconstruction: drawnAgain },
    },
  };
}

function describeLength(now, before) {
  const values = { now: now.toFixed(2), before: before.toFixed(2) };
  if (now === before) return t("length {now}", values);
  return now > 1
    ? t("length {now}; in your drawing {before}. No capsule is longer than 1.", values)
    : t("length {now}; in your drawing {before}", values);
}

function signedText(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

function shortText(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2).slice(1)}`;
}

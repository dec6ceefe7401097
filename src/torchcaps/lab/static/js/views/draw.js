// View 1: draw a digit, and see its capsules, its reconstruction and its couplings.

import { latestOnly, reportError } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict, showStatus } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine } from "../core/networks.js";
import { keepSettings, numberOf, recall, remember, settingsOf } from "../core/settings.js";
import { takeSharedDrawing } from "../core/share.js";
import { currentImage, setImage, setMissing, setRecognition } from "../core/state.js";
import { createTourCard } from "../tour/card.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink } from "../widgets/canvas_image.js";
import { createCapsuleDetail } from "../widgets/capsule_detail.js";
import { createCouplingMaps } from "../widgets/coupling_maps.js";
import { createNetworkStrip } from "../widgets/network_strip.js";
import { createPad } from "../widgets/drawing_pad.js";
import { createThumbs, digitExamples, FIRST_EXAMPLE, oneOfEach } from "../widgets/example_thumbs.js";
import { IMAGE_TYPES, imageOf, readImage } from "../widgets/image_file.js";

const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

export async function create(stage) {
  const settings = { iteration: null, capsule: null };
  let iteration = 0; // that the player shows, from 0
  const keep = (changes) => {
    Object.assign(settings, changes);
    keepSettings("draw", Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== null)));
  };
  const pad = createPad({
    label: t("Area to draw a digit; the first stroke replaces the example, Ctrl+Z undoes, Delete clears"), onChange: changed,
  });
  const thumbs = createThumbs({ label: t("Examples from the test set"), onPick: pick });
  const bars = createBars({ labels: DIGITS, label: t("Length of each digit's capsule") });
  const verdict = createVerdict();
  const input = figure(createImage({ label: t("Input of the network") }), t("Input: 28 × 28 pixels, centered as in MNIST"));
  const output = figure(createImage({ label: t("Reconstruction") }), t("Reconstruction from the longest capsule"));
  const couplings = createCouplingMaps({
    start: numberOf("draw", "iteration", [1, 100], null),
    onIteration: (index, count) => {
      iteration = index;
      keep({ iteration: index === count - 1 ? null : index + 1 });
      if (shownCapsule) detail.show(shown.image, shown.response, shownCapsule, iteration);
    },
    onPoint,
  });
  const strip = createNetworkStrip({
    onPoint, onImage: () => { pad.element.scrollIntoView({ block: "center" }); pad.element.focus(); },
  });
  const detail = createCapsuleDetail({ onChoose: (place) => {
    kept = place;
    keep({ capsule: [place.row, place.column, place.type].join("_") });
    choose(place);
  } });
  if (placeOf(settingsOf("draw").get("capsule"))) settings.capsule = settingsOf("draw").get("capsule");
  let kept = placeOf(settingsOf("draw").get("capsule")); // the primary capsule that the slider chose; without it the one that sends most to the answer
  let pointed = null; // the one that is shown, or will be when the server has answered
  let shownCapsule = null;
  const file = h("input", { type: "file", accept: IMAGE_TYPES, hidden: true, onchange: () => { openImage(file.files[0]); file.value = ""; } });
  let digits = [];
  let shown = null; // the image and the response that the view shows

  stage.append(
    h("div", { class: "w3 stack pad-stack" },
      card("pad-card", t("Your digit"), t("drawing replaces the example"), verdict.element,
        pad.element,
        h("div", { class: "row" },
          button(t("Undo"), pad.undo), button(t("Clear"), pad.clear), button(t("Open image"), () => file.click()), file,
          button(t("More examples"), moreExamples)),
        thumbs.element, h("p", { class: "soft small" }, t("You can also paste or drop an image here."))),
      createTourCard()),
    h("div", { class: "w9 stack wide-first" },
      card("result strip-card", t("The network"), t("every stage with the values of your digit; click a stage to open its view"), strip.element,
        h("h3", {}, t("One primary capsule and its votes"), h("span", { class: "soft" }, t("point at another one; the player of Couplings sets the iteration"))), detail.element),
      h("div", { class: "under-strip" },
        card("result lengths-card", t("Capsule lengths"), t("from 0 to 1"), bars.element, networkLine("capsnet_small", "mnist").element),
        card("result", t("Reconstruction"), t("drawn from 16 numbers"), h("div", { class: "pair" }, input.element, output.element)))),
    card("w12 result coupling-card", t("Couplings"), t("how much each position sends to each digit"), couplings.element),
  );

  const notice = createNotice(stage);
  const query = latestOnly("api/draw", stage, (response, { image }) => {
    if (image === currentImage()) setRecognition(response);
    if (currentImage()) show(response, image);
  }, (message) => { notice(message); setMissing(message); });

  const inspect = latestOnly("api/capsule", detail.element, (capsule, { image }) => {
    if (image === shown?.image && samePlace(capsule, pointed)) showCapsule(capsule);
  });

  function showCapsule(capsule) {
    pointed = shownCapsule = capsule;
    strip.mark(capsule);
    couplings.mark(capsule);
    detail.show(shown.image, shown.response, capsule, iteration);
  }

  function choose({ row, column, type }) {
    if (!shown || samePlace(pointed, { row, column, type })) return;
    pointed = { row, column, type };
    inspect({ image: shown.image, row, column, type });
  }

  function onPoint(place) {
    if (place) choose(place);
    else if (kept) choose(kept);
    else showCapsule(shown.response.capsule);
  }

  function changed(pixels) {
    setImage(pixels);
    thumbs.mark(digits.find((digit) => digit.image === pixels));
    remember("drawing", roundedDrawing(pad.save()));
    if (pixels) {
      if (stage.classList.contains("empty")) verdict.set("", t("Waiting for the network …"));
      query({ image: pixels });
    } else {
      shown = null;
      verdict.set("", t("Nothing drawn yet: draw a digit."));
    }
    stage.classList.toggle("empty", !pixels);
    for (const result of stage.querySelectorAll(".result")) result.inert = !pixels;
  }

  function show(response, image) {
    shown = { image, response };
    shownCapsule = null; // the old one belongs to another drawing
    const { best, lengths } = response;
    const length = lengths[best].toFixed(2);
    verdict.set(String(best), lengths[best] > 0.5 ? t("capsule {best} has length {length}", { best, length }) : t("not sure: all capsules are short"));
    bars.update(lengths, { [best]: "var(--accent)" });
    input.draw(ink(image));
    output.draw(ink(response.reconstruction), t("Reconstruction of a {best}", { best }));
    strip.show(image, response, couplings.show(image, response));
    showCapsule(response.capsule);
    if (kept) choose(kept);
  }

  function pick(digit) {
    pad.load(digit.image);
  }

  async function openImage(source) {
    try {
      pad.load(await readImage(source));
    } catch (error) {
      showStatus(error.message);
    }
  }

  document.addEventListener("paste", (event) => {
    const image = imageOf(event.clipboardData);
    if (image && !stage.closest("[hidden]")) openImage(image);
  });
  stage.addEventListener("dragover", (event) => event.preventDefault());
  stage.addEventListener("drop", (event) => {
    event.preventDefault(); // the browser would leave the page for the image
    const image = imageOf(event.dataTransfer);
    if (image) openImage(image);
  });

  // Drawing works without examples, so the view opens even if they cannot be loaded.
  async function moreExamples() {
    try {
      digits = await digitExamples();
      const selection = oneOfEach(digits);
      thumbs.show(selection);
      return selection;
    } catch (error) {
      reportError(error);
      return [];
    }
  }

  const examples = await moreExamples();
  const shared = takeSharedDrawing();
  const saved = shared ? { strokes: [], example: shared } : recall("drawing");
  if (saved && (saved.strokes.length || saved.example) && !currentImage()) {
    // The same object as in the list, so that its button is marked.
    const known = digits.find((digit) => JSON.stringify(digit.image) === JSON.stringify(saved.example));
    pad.restore({ ...saved, example: known?.image ?? saved.example });
  }
  if (examples.length && !currentImage()) pick(examples[Math.min(FIRST_EXAMPLE, examples.length - 1)]);
  return {
    hide: couplings.stop,
    drawing: { save: pad.save, restore: pad.restore },
    exports: () => shown && {
      table: [["digit", "length"], ...shown.response.lengths.map((length, digit) => [digit, length])],
      data: { image: shown.image, ...shown.response },
    },
  };
}

// Row, column and type of the capsule that an address names, or null.
function placeOf(text) {
  const [row, column, type] = (text ?? "").split("_").map(Number);
  const inside = (at, size) => Number.isInteger(at) && at >= 0 && at < size;
  return text && inside(row, 6) && inside(column, 6) && inside(type, 8) ? { row, column, type } : null;
}

function samePlace(one, two) {
  return one?.row === two?.row && one?.column === two?.column && one?.type === two?.type;
}

function roundedDrawing({ strokes, example }) {
  return { example, strokes: strokes.map((stroke) => stroke.map((point) => point.map((at) => Number(at.toFixed(4))))) };
}

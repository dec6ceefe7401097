// View 1: draw a digit, and see its capsules, its reconstruction and its couplings.

import { latestOnly, reportError } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { networkLine } from "../core/networks.js";
import { recall, remember } from "../core/settings.js";
import { takeSharedDrawing } from "../core/share.js";
import { currentImage, setImage, setMissing, setRecognition } from "../core/state.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink } from "../widgets/canvas_image.js";
import { createCouplingMaps } from "../widgets/coupling_maps.js";
import { createNetworkStrip } from "../widgets/network_strip.js";
import { createPad } from "../widgets/drawing_pad.js";
import { createThumbs, digitExamples, oneOfEach } from "../widgets/example_thumbs.js";

const FIRST_EXAMPLE = 2; // a digit with a loop, which is interesting in Tweak
const PAD_LABEL = "Area to draw a digit; the first stroke replaces the example, Ctrl+Z undoes, Delete clears";

export async function create(stage) {
  const pad = createPad({ label: PAD_LABEL, onChange: changed });
  const thumbs = createThumbs({ label: "Examples from the test set", onPick: pick });
  const bars = createBars({ labels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], label: "Length of each digit's capsule" });
  const verdict = createVerdict();
  const input = figure(createImage({ label: "Input of the network" }), "Input: 28 × 28 pixels, centered as in MNIST");
  const output = figure(createImage({ label: "Reconstruction" }), "Reconstruction from the longest capsule");
  const couplings = createCouplingMaps();
  const strip = createNetworkStrip();
  let digits = [];

  stage.append(
    card("w12 result strip-card", "The network", "every stage with the values of your digit; a name opens its view", strip.element),
    card("w4 tall", "Your digit", "drawing replaces the example", verdict.element,
      pad.element,
      h("div", { class: "row" },
        button("Undo", pad.undo), button("Clear", pad.clear), button("More examples", moreExamples)),
      thumbs.element),
    card("w4 result", "Capsule lengths", "from 0 to 1", bars.element, networkLine("capsnet_small", "mnist").element),
    card("w4 result", "Reconstruction", "drawn from 16 numbers",
      h("div", { class: "pair" }, input.element, output.element)),
    card("w8 result wide-first", "Couplings", "how much each position sends to each digit", couplings.element),
  );

  const notice = createNotice(stage);
  const query = latestOnly("api/draw", stage, (response, { image }) => {
    if (image === currentImage()) setRecognition(response);
    if (currentImage()) show(response, image);
  }, (message) => { notice(message); setMissing(message); });

  function changed(pixels) {
    setImage(pixels);
    thumbs.mark(digits.find((digit) => digit.image === pixels));
    remember("drawing", roundedDrawing(pad.save()));
    if (pixels) {
      if (stage.classList.contains("empty")) verdict.set("", "Waiting for the network …");
      query({ image: pixels });
    } else {
      verdict.set("", "Nothing drawn yet: draw a digit.");
    }
    stage.classList.toggle("empty", !pixels);
    for (const result of stage.querySelectorAll(".result")) result.inert = !pixels;
  }

  function show(response, image) {
    const { best, lengths } = response;
    const length = lengths[best].toFixed(2);
    verdict.set(String(best), lengths[best] > 0.5 ? `capsule ${best} has length ${length}` : "not sure: all capsules are short");
    bars.update(lengths, { [best]: "var(--accent)" });
    input.draw(ink(image));
    output.draw(ink(response.reconstruction), `Reconstruction of a ${best}`);
    strip.show(image, response, couplings.show(image, response));
  }

  function pick(digit) {
    pad.load(digit.image);
  }

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
  return { hide: couplings.stop };
}

function roundedDrawing({ strokes, example }) {
  return { example, strokes: strokes.map((stroke) => stroke.map((point) => point.map((at) => Number(at.toFixed(4))))) };
}

// View 1: draw a digit, see its capsules, its reconstruction and where its parts were sent.

import { button, card, h } from "../dom.js";
import { createBars } from "../bars.js";
import { createCouplings } from "./couplings.js";
import { createImage, figure, ink } from "../canvas_image.js";
import { createNotice } from "../notice.js";
import { createPad } from "../drawing_pad.js";
import { createThumbs, digitExamples, oneOfEach } from "../examples.js";
import { createVerdict } from "../verdict.js";
import { explain, newest } from "../api.js";
import { currentImage, setImage, setMissing, setReading } from "../state.js";

const FIRST_EXAMPLE = 2; // a digit with a loop to tweak
const PAPER = "Paper to draw a digit on; the first stroke replaces the example, Ctrl+Z takes the last one back, Delete clears";

export async function create(stage) {
  const pad = createPad({ label: PAPER, onChange: changed });
  const thumbs = createThumbs({ label: "Examples from the test set", onPick: pick });
  const bars = createBars({ labels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], label: "Length of each digit's capsule" });
  const verdict = createVerdict();
  const seen = figure(createImage({ label: "What the network sees" }), "What it sees: 28 × 28, centered as in MNIST");
  const rebuilt = figure(createImage({ label: "Reconstruction" }), "What it thinks it saw, from one capsule alone");
  const couplings = createCouplings();
  let digits = [];

  const others = button("More examples", moreExamples);
  stage.append(
    card("w4 tall", "Your digit", "draw: the example goes away", verdict.element,
      pad.element,
      h("div", { class: "row" }, button("Undo", pad.undo), button("Clear", pad.clear), others),
      thumbs.element),
    card("w4 result", "Capsule lengths", "how sure it is of each", bars.element),
    card("w4 result", "Reconstruction", "drawn from 16 numbers",
      h("div", { class: "pair" }, seen.element, rebuilt.element),
      h("p", { class: "soft small" }, "Specks and odd serifs are lost; slant and thickness stay.")),
    card("w8 result wide-first", "Couplings", "which places in the image send to which digit", couplings.element),
  );

  const notice = createNotice(stage);
  const ask = newest("api/draw", stage, (answer, { image }) => {
    if (image === currentImage()) setReading(answer);
    if (currentImage()) show(answer, image);
  }, (sentence) => { notice(sentence); setMissing(sentence); });

  function changed(pixels) {
    setImage(pixels);
    thumbs.mark(digits.find((digit) => digit.image === pixels));
    if (pixels) ask({ image: pixels });
    else verdict.set("", "Empty paper: draw a digit.");
    stage.classList.toggle("empty", !pixels);
    for (const result of stage.querySelectorAll(".result")) result.inert = !pixels;
  }

  function show(answer, image) {
    const { best, lengths } = answer;
    const sure = lengths[best] > 0.5;
    verdict.set(String(best), sure ? `capsule ${best} is ${lengths[best].toFixed(2)} long` : "no capsule is sure");
    bars.update(lengths, { [best]: "var(--accent)" });
    seen.draw(ink(image));
    rebuilt.draw(ink(answer.reconstruction), `Reconstruction of a ${best}`);
    couplings.show(image, answer);
  }

  function pick(digit) {
    pad.load(digit.image);
  }

  // Without examples one can still draw, so their absence does not close the view.
  async function moreExamples() {
    try {
      digits = await digitExamples();
      const shown = oneOfEach(digits);
      thumbs.show(shown);
      return shown;
    } catch (error) {
      explain(error);
      return [];
    }
  }

  const shown = await moreExamples();
  if (shown.length && !currentImage()) pick(shown[Math.min(FIRST_EXAMPLE, shown.length - 1)]);
  return { hide: couplings.stop };
}

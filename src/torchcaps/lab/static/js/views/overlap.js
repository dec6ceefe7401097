// View 3: two overlapping digits, recognized by capsules and by a CNN.

import { latestOnly } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { networkLine } from "../core/networks.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, layers } from "../widgets/canvas_image.js";
import { createDigitPair } from "../widgets/digit_pair.js";
import { createThumbs, digitExamples, oneOfEach } from "../widgets/example_thumbs.js";

const INKS = ["accent", "second"];
const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const RESULTS = { 2: "both correct", 1: "one of two correct", 0: "both wrong" };

export async function create(stage) {
  const digits = await digitExamples();
  const pair = createDigitPair(INKS, send);
  const thumbs = [0, 1].map((which) => createThumbs({
    label: which ? "Second digit" : "First digit",
    onPick: (digit) => { thumbs[which].mark(digit); pair.set(which, digit); },
  }));
  const both = figure(createImage({ label: "Both reconstructions" }), "Both, overlaid");
  const single = INKS.map(() => figure(createImage({ label: "One reconstruction" }), ""));
  const capsuleBars = createBars({ labels: DIGITS, label: "Capsule lengths" });
  const cnnBars = createBars({ labels: DIGITS, label: "Scores of the convolutional network", max: 0.5 });
  const capsuleVerdict = createVerdict();
  const cnnVerdict = createVerdict();

  thumbs[1].element.classList.add("second");
  for (const { element } of [capsuleVerdict, cnnVerdict]) element.classList.add("plain");
  stage.append(
    card("w4 tall", "Two digits", "drag to move them", pair.element,
      h("div", { class: "row" }, button("New pair", newPair), button("Least overlap", pair.separate)),
      pair.handles[0], thumbs[0].element, pair.handles[1], thumbs[1].element),
    card("w8 result", "Two reconstructions", "each from one capsule",
      h("div", { class: "three" }, both.element, single.map((picture) => picture.element))),
    card("w4 result", "Capsules", "the two longest; a full bar is a length of 1",
      capsuleVerdict.element, capsuleBars.element, networkLine("capsnet_small", "multimnist").element),
    card("w4 result", "CNN", "the two highest; a full bar is 0.5",
      cnnVerdict.element, cnnBars.element, networkLine("capsnet_cnn", "multimnist").element,
      h("p", { class: "soft small" },
        "These scores add up to 1 over all digits, so two digits that are equally certain have at most 0.5 each.")),
  );

  const query = latestOnly("api/overlap", stage, ({ capsules, cnn }, { labels }) => {
    const order = inOrderOf(labels, capsules.best);
    const pictures = order.map((digit) => capsules.reconstructions[capsules.best.indexOf(digit)]);
    both.draw(layers(pictures.map((pixels, which) => [pixels, INKS[which]])), `Reconstructions of ${order.join(" and ")}`);
    pictures.forEach((pixels, which) => {
      single[which].draw(layers([[pixels, INKS[which]]]), `Reconstruction of ${order[which]}`);
      single[which].caption(`Capsule ${order[which]}`);
    });
    capsuleBars.update(capsules.lengths, marks(order));
    const cnnOrder = inOrderOf(labels, cnn.best);
    cnnBars.update(cnn.scores, marks(cnnOrder));
    showVerdict(capsuleVerdict, labels, order);
    showVerdict(cnnVerdict, labels, cnnOrder);
  }, createNotice(stage));

  // The labels are not enumerable, so they are not sent to the server.
  function send(image, labels) {
    const body = { image };
    Object.defineProperty(body, "labels", { value: labels, enumerable: false });
    query(body);
  }

  function newPair() {
    const [first, second] = [...digits].sort(() => Math.random() - 0.5);
    const other = second.label === first.label ? digits.find((digit) => digit.label !== first.label) : second;
    choose(first, other);
  }

  const examples = oneOfEach(digits);

  // A digit that has no button replaces the one of its class.
  function choose(first, second) {
    [first, second].forEach((digit, which) => {
      thumbs[which].show(examples.map((example) => (example.label === digit.label ? digit : example)));
      thumbs[which].mark(digit);
      pair.set(which, digit);
    });
  }

  choose(examples[4 % examples.length], examples[3 % examples.length]);

  return {};
}

// The two predicted digits; a correct one takes the place, and so the color, of the digit that it names.
function inOrderOf(labels, best) {
  const [a, b] = best;
  return a === labels[1] || b === labels[0] ? [b, a] : [a, b];
}

function marks(order) {
  return Object.fromEntries(order.map((digit, which) => [digit, `var(--${INKS[which]})`]));
}

function showVerdict(verdict, labels, predictions) {
  if (labels[0] === labels[1]) { // there is one score for each class, so a class cannot be named twice
    const found = predictions.includes(labels[0]);
    verdict.set(found ? String(labels[0]) : `${predictions[0]} and ${predictions[1]}`,
      found ? `correct; two digits of one class count once` : "wrong; two digits of one class count once");
    return;
  }
  const correct = predictions.filter((digit) => labels.includes(digit)).length;
  verdict.set(`${predictions[0]} and ${predictions[1]}`, RESULTS[correct]);
}

// View 3: two digits over each other; capsules give each its own ink.

import { button, card, h } from "../dom.js";
import { createBars } from "../bars.js";
import { createImage, figure, ink, layers } from "../canvas_image.js";
import { createNotice } from "../notice.js";
import { createThumbs, digitExamples, oneOfEach } from "../examples.js";
import { createTwoDigits } from "../two_digits.js";
import { createVerdict } from "../verdict.js";
import { newest } from "../api.js";

const INKS = ["accent", "second"];
const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

export async function create(stage) {
  const digits = await digitExamples();
  const board = createTwoDigits(INKS, send);
  const thumbs = [0, 1].map((which) => createThumbs({
    label: which ? "Second digit" : "First digit",
    onPick: (digit) => { thumbs[which].mark(digit); board.set(which, digit); },
  }));
  const both = figure(createImage({ label: "Both reconstructions" }), "Both, overlaid");
  const apart = INKS.map(() => figure(createImage({ label: "One reconstruction" }), ""));
  const capsuleBars = createBars({ labels: DIGITS, label: "Capsule lengths" });
  const cnnBars = createBars({ labels: DIGITS, label: "Scores of the convolutional network" });
  const capsuleVerdict = createVerdict();
  const cnnVerdict = createVerdict();

  thumbs[1].element.classList.add("second");
  for (const { element } of [capsuleVerdict, cnnVerdict]) element.classList.add("plain");
  stage.append(
    card("w4 tall", "Two digits", "drag them", board.element,
      h("div", { class: "row" }, button("Another pair", anotherPair), button("Pull apart", board.apart)),
      board.handles[0], thumbs[0].element, board.handles[1], thumbs[1].element),
    card("w8 result", "Two reconstructions", "each from one capsule",
      h("div", { class: "three" }, both.element, apart.map((picture) => picture.element))),
    card("w4 result", "Capsules", "the two longest", capsuleVerdict.element, capsuleBars.element),
    card("w4 result", "CNN", "the two highest scores", cnnVerdict.element, cnnBars.element),
  );

  const ask = newest("api/overlap", stage, ({ capsules, cnn }, { labels }) => {
    const order = inOrderOf(labels, capsules.best);
    const pictures = order.map((digit) => capsules.reconstructions[capsules.best.indexOf(digit)]);
    both.draw(layers(pictures.map((pixels, which) => [pixels, INKS[which]])), `Reconstructions of ${order.join(" and ")}`);
    pictures.forEach((pixels, which) => {
      apart[which].draw(layers([[pixels, INKS[which]]]), `Reconstruction of ${order[which]}`);
      apart[which].caption(`Capsule ${order[which]}`);
    });
    capsuleBars.update(capsules.lengths, marks(order));
    const guess = inOrderOf(labels, cnn.best);
    cnnBars.update(cnn.scores, marks(guess));
    tell(capsuleVerdict, labels, order);
    tell(cnnVerdict, labels, guess);
  }, createNotice(stage));

  // The labels stay here: the server is asked about pixels alone.
  function send(image, labels) {
    const body = { image };
    Object.defineProperty(body, "labels", { value: labels, enumerable: false });
    ask(body);
  }

  function anotherPair() {
    const [first, second] = [...digits].sort(() => Math.random() - 0.5);
    const other = second.label === first.label ? digits.find((digit) => digit.label !== first.label) : second;
    choose(first, other);
  }

  function choose(first, second) {
    [first, second].forEach((digit, which) => { thumbs[which].mark(digit); board.set(which, digit); });
  }

  const shown = oneOfEach(digits);
  for (const strip of thumbs) strip.show(shown);
  choose(shown[4 % shown.length], shown[3 % shown.length]);

  return {};
}

// The answer's digits, those that are right in the place (and color) of the digit they name.
function inOrderOf(labels, best) {
  const [a, b] = best;
  return a === labels[1] || b === labels[0] ? [b, a] : [a, b];
}

function marks(order) {
  return Object.fromEntries(order.map((digit, which) => [digit, `var(--${INKS[which]})`]));
}

function tell(verdict, labels, found) {
  const right = found.filter((digit) => labels.includes(digit)).length;
  const words = { 2: "both right", 1: "one of two right", 0: "neither right" };
  verdict.set(`${found[0]} and ${found[1]}`, words[Math.min(right, new Set(labels).size === 1 ? 1 : 2)]);
}

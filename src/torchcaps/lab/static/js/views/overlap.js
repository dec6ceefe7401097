// View 3: two overlapping digits, recognized by capsules and by a CNN.

import { getCached, latestOnly } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { formatNumber, t } from "../core/i18n.js";
import { networkLine } from "../core/networks.js";
import { keepSettings, numberOf, settingsOf } from "../core/settings.js";
import { WRONG } from "../widgets/answer_key.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink, layers } from "../widgets/canvas_image.js";
import { createColorBar } from "../widgets/color_bar.js";
import { createDigitPair } from "../widgets/digit_pair.js";
import { createThumbs, digitExamples, oneOfEach } from "../widgets/example_thumbs.js";
import { createHeatmap } from "../widgets/heatmap.js";
import { createHowOften } from "../widgets/how_often.js";

const INKS = ["first", "second"];
const DIGITS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
const NETWORKS = { capsules: ["capsnet_small", "multimnist"], cnn: ["capsnet_cnn", "multimnist"] };
const SIZE = 36; // pixels along each side of the picture
const GRID = 10; // positions along each side of the map
// Pairs on which one network is right and the other wrong, each of them twice: two examples and their places. The view
// opens with the first.
const DIFFERENT = [[75, 29, [5, 4, 6, 3]], [33, 73, [4, 3, 4, 6]], [60, 8, [2, 3, 1, 6]], [24, 1, [1, 6, 2, 4]]];

export async function create(stage) {
  const digits = await digitExamples();
  const pair = createDigitPair(INKS, send);
  const thumbs = [0, 1].map((which) => createThumbs({
    label: which ? t("Second digit") : t("First digit"),
    onPick: (digit) => { thumbs[which].mark(digit); pair.set(which, digit); },
  }));
  const seen = figure(createImage({ label: t("What the networks see"), smooth: false }), t("What both networks see: {size} × {size} pixels; frame: the map", { size: SIZE }));
  const frame = h("i", { class: "map-frame", "aria-hidden": "true" });
  seen.element.prepend(h("div", { class: "framed" }, seen.element.firstChild, frame));
  const single = INKS.map(() => figure(createImage({ label: t("One reconstruction") }), ""));
  const places = figure(createHeatmap(t("Which digit each place sends more to"), GRID), "");
  const scale = createColorBar({ label: t("Difference, as a share of the largest"), kind: "digits", paper: true });
  places.element.append(scale.element);
  const placesText = h("p", { class: "soft small" });
  const capsuleBars = createBars({ labels: DIGITS, label: t("Capsule lengths") });
  const cnnBars = createBars({ labels: DIGITS, label: t("Scores of the convolutional network") });
  cnnBars.scale(1, 0.5);
  const misses = [0, 1].map(() => h("p", { class: "soft small swatch-key wrong-key miss-key" }, t("an answer that is not in the picture")));
  const capsuleVerdict = createVerdict();
  const cnnVerdict = createVerdict();
  const howOften = createHowOften(({ overlap }) =>
    t("Of {count} random pairs, both networks name both digits correctly in {both}, only one does in {one} (capsules {capsules}, CNN {cnn}), and neither in {neither}.", { ...overlap, one: overlap.capsules + overlap.cnn }));
  const conclusion = h("p", { class: "message" });
  getCached("api/status").then(({ models }) => { conclusion.textContent = compareErrors(models); }, () => {});
  let shown = null;

  for (const { element } of [capsuleVerdict, cnnVerdict]) element.classList.add("plain");
  stage.append(
    h("div", { class: "w12 result verdicts" },
      h("div", {}, h("span", { class: "small soft" }, t("Capsules")), capsuleVerdict.element),
      h("div", {}, h("span", { class: "small soft" }, t("CNN")), cnnVerdict.element)),
    h("div", { class: "w12 result" }, conclusion, howOften.element),
    card("w4 tall", t("Two digits"), t("drag to move them"), pair.element,
      h("div", { class: "row" }, button(t("New pair"), newPair), button(t("Move them apart"), pair.separate)),
      h("div", { class: "row" }, h("span", { class: "small soft" }, t("Examples on which one network is wrong:")), DIFFERENT.map(([one, two, at]) =>
        button(t("Show {one} and {two}", { one: digits[one].label, two: digits[two].label }), () => { pair.place(at); choose(digits[one], digits[two]); }, "small"))),
      INKS.map((name, which) => h("div", { class: `digit-choice ${name}` }, pair.handles[which], thumbs[which].element))),
    card("w8 result", t("From one picture to two digits"), t("the two longest capsules"),
      h("div", { class: "overlap-steps" }, seen.element, places.element, single.map((picture) => picture.element)), placesText),
    card("w4 result", t("Capsules"), t("the two longest; a full bar is 1"),
      capsuleBars.element, misses[0], networkLine(...NETWORKS.capsules).element),
    card("w4 result", t("CNN"), t("the two highest; a full bar is 1"),
      cnnBars.element, misses[1],
      h("p", { class: "soft small" }, t("Line: 0.5. The scores add up to 1, so two equal scores have at most 0.5 each.")),
      networkLine(...NETWORKS.cnn).element),
  );

  const query = latestOnly("api/overlap", stage, (response, { image, labels }) => {
    const { capsules, cnn } = response;
    shown = { image, labels, response };
    const order = inOrderOf(labels, capsules.best);
    const pictures = order.map((digit) => capsules.reconstructions[capsules.best.indexOf(digit)]);
    seen.draw(ink(image));
    showPlaces(image, capsules, order);
    pictures.forEach((pixels, which) => {
      const digit = order[which];
      single[which].draw(layers([[pixels, INKS[which]]]), t("Reconstruction of {digit}", { digit }));
      single[which].caption(t("What capsule {digit} draws", { digit }));
    });
    capsuleBars.update(capsules.lengths, marks(order, labels));
    const cnnOrder = inOrderOf(labels, cnn.best);
    cnnBars.update(cnn.scores, marks(cnnOrder, labels));
    [order, cnnOrder].forEach((answers, index) => { misses[index].hidden = answers.every((digit) => labels.includes(digit)); });
    showVerdict(capsuleVerdict, labels, order);
    showVerdict(cnnVerdict, labels, cnnOrder);
    howOften.show(isRight(labels, order) !== isRight(labels, cnnOrder));
  }, createNotice(stage));

  // Each square in the color of the digit that it sends more to. The square root makes small differences visible.
  function showPlaces(image, { lead, best, field_centers: centers }, [one, two]) {
    const sign = best[0] === one ? 1 : -1;
    const cells = lead.map((row) => row.map((value) => sign * Math.sign(value) * Math.sqrt(Math.abs(value))));
    places.draw(image, cells, centers, INKS);
    frame.style.setProperty("--from", `${((centers.first - centers.step / 2 + 0.5) / SIZE) * 100}%`);
    frame.style.setProperty("--side", `${((centers.step * GRID) / SIZE) * 100}%`);
    places.caption(t("Which places send more to {one}, which to {two}", { one, two }));
    scale.show(t("more to {digit}", { digit: one }), t("equal"), t("more to {digit}", { digit: two }));
    getCached("api/differences").then(({ places: { pairs, squares, right, clear, clear_right: clearRight } }) => {
      placesText.textContent = t("Color: the digit that a place sends more to. Full color: the largest difference in this picture; half the color: a quarter of it. In the {pairs} random pairs that the capsules name correctly, places on ink of one digit alone choose it in {share} of cases (chance: 50 %); the {strong} of them with at least half the full color choose it in {clear}.",
        { pairs, share: percent(right, squares), strong: percent(clear, squares), clear: percent(clearRight, clear) });
    }, () => {});
  }

  // The labels are not enumerable, so they are not sent to the server.
  function send(image, labels) {
    const body = { image };
    Object.defineProperty(body, "labels", { value: labels, enumerable: false });
    const [first, second] = pair.digits.map((digit) => digits.indexOf(digit));
    keepSettings("overlap", { first, second, places: pair.places.join("_") });
    query(body);
  }

  function newPair() {
    const [first, second] = [...digits].sort(() => Math.random() - 0.5);
    const other = second.label === first.label ? digits.find((digit) => digit.label !== first.label) : second;
    choose(first, other);
  }

  const examples = oneOfEach(digits);

  // A digit that has no button replaces the one of its class.
  function choose(...chosen) {
    chosen.forEach((digit, which) => {
      thumbs[which].show(examples.map((example) => (example.label === digit.label ? digit : example)));
      thumbs[which].mark(digit);
    });
    pair.setBoth(chosen);
  }

  const [first, second, open] = DIFFERENT[0];
  pair.place(settingsOf("overlap").get("places")?.split("_").map(Number) ?? open);
  choose(...[first, second].map((start, which) => digits[Math.floor(numberOf("overlap", INKS[which], [0, digits.length - 1], start % digits.length))]));

  return {
    exports: () => shown && {
      table: [["digit", "capsule_length", "cnn_score"],
        ...DIGITS.map((digit) => [digit, shown.response.capsules.lengths[digit], shown.response.cnn.scores[digit]])],
      data: { image: shown.image, labels: shown.labels, ...shown.response },
    },
  };
}

// The two predicted digits; a correct one takes the place, and so the color, of the digit that it names.
function inOrderOf(labels, best) {
  const [a, b] = best;
  return a === labels[1] || b === labels[0] ? [b, a] : [a, b];
}

function isRight(labels, predictions) {
  return labels.every((label) => predictions.includes(label));
}

// The two colors are those of the two digits, so an answer that is neither of them has stripes.
function marks(order, labels) {
  return Object.fromEntries(order.map((digit, which) => [digit, labels.includes(digit) ? `var(--${INKS[which]})` : WRONG]));
}

// The errors of both networks on the test set, from api/status; "" if one of them is not installed.
export function compareErrors(models) {
  const [capsules, cnn] = Object.values(NETWORKS).map((key) => models.find(({ id }) => id === key.join("-"))?.metrics);
  if (!capsules?.count || capsules.count !== cnn?.count) return "";
  const share = ({ error }) => formatNumber(error, { style: "percent", minimumFractionDigits: 2 });
  return t("On {count} test pairs, the capsules have {capsules} errors and the CNN {cnn}. An error: not both digits are named correctly. Only the capsules also draw each digit.",
    { count: formatNumber(capsules.count), capsules: share(capsules), cnn: share(cnn) });
}

function showVerdict(verdict, labels, predictions) {
  const [one, two] = predictions;
  verdict.element.classList.toggle("wrong", !isRight(labels, predictions));
  const both = t("{one} and {two}", { one, two });
  if (labels[0] === labels[1]) { // there is one score for each class, so a class cannot be named twice
    if (predictions.includes(labels[0])) verdict.set(String(labels[0]), t("correct; two digits of one class count once"));
    else verdict.set(both, t("wrong; two digits of one class count once"));
    return;
  }
  const correct = predictions.filter((digit) => labels.includes(digit)).length;
  verdict.set(both, [t("both wrong"), t("one of two correct"), t("both correct")][correct]);
}

function percent(part, all) {
  return `${Math.round((100 * part) / all)} %`;
}

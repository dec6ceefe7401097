// View 7: scores against the size of an attack, for each network.

import { latestOnly } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine } from "../core/networks.js";
import { numberText } from "../core/scale.js";
import { unpack } from "../core/pixels.js";
import { keepSettings, numberOf, settingOf } from "../core/settings.js";
import { currentImage, imageVersion } from "../core/state.js";
import { COLORS, createAnswerKey, WRONG } from "../widgets/answer_key.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink, signed } from "../widgets/canvas_image.js";
import { createChoices } from "../widgets/choices.js";
import { createColorBar } from "../widgets/color_bar.js";
import { createThumbs, digitExamples, isFirstExample } from "../widgets/example_thumbs.js";
import { createHowOften } from "../widgets/how_often.js";
import { createLineChart } from "../widgets/line_chart.js";
import { createSlider } from "../widgets/slider.js";

const MODELS = { capsules: "shared_capsnet", cnn: "pooled_cnn" };
const LINES = { capsules: "one", cnn: "two solid" }; // classes of style/charts.css
const METHODS = [["fgsm", "FGSM"], ["pgd", "PGD"]];
const [MAX, SIZE] = [0.5, 28];
const PER_CLASS = 8;
const FIRST = 3; // of the digits that are offered: the CNN's prediction changes at a smaller ε than that of the capsules
const DRAWN = "drawing";

export async function create(stage) {
  const digits = await digitExamples();
  const offered = digits.filter((_, number) => number % PER_CLASS === 1); // one of each class, as in Compare
  const names = { capsules: t("Capsules"), cnn: t("CNN") };
  const hints = { capsules: t("lengths, each from 0 to 1"), cnn: t("one sigmoid per class, each from 0 to 1") };
  const epsilon = createSlider({
    label: t("ε, the largest change of a pixel"), min: 0, max: MAX, step: 0.01, value: numberOf("attack", "epsilon", [0, MAX], 0.12),
    format: (value) => value.toFixed(2), onInput: () => { keep(); draw(); },
  });
  const method = createChoices({
    label: t("Attack"), options: METHODS, value: settingOf("attack", "method", METHODS.map(([key]) => key), "fgsm"), onChange: send,
  });
  const original = figure(createImage({ label: t("The attacked digit"), resolution: 168 }), "");
  const thumbs = createThumbs({ label: t("Digits of the test set"), onPick: (digit) => { chosen = offered.indexOf(digit); send(); } });
  const own = button(t("Your drawing"), () => { chosen = DRAWN; send(); }, "small");
  const headline = createVerdict();
  const explanation = h("p", { class: "soft small" });
  const networks = Object.keys(names).map((key) => ({
    key,
    attacked: figure(createImage({ label: t("Attacked image for {network}", { network: names[key] }) }), t("Attacked image")),
    change: figure(createImage({ label: t("Change of each pixel"), smooth: false }), t("Change: purple more ink, green less")),
    bar: createColorBar({ label: t("Change of each pixel"), kind: "signed", paper: true }),
    verdict: createVerdict(),
    chart: createLineChart({
      label: t("{network}: score of the first prediction and of its strongest rival, against ε", { network: names[key] }),
      xTitle: "ε", y: [0, 1], onPick: pick,
    }),
    bars: createBars({ labels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], label: t("Scores of {network} under attack", { network: names[key] }) }),
  }));
  const howOften = createHowOften(({ attack, changes }) => {
    const { count, epsilons, capsules, cnn } = changes[shown.method];
    const at = nearest(epsilons, epsilon.value);
    return [
      t("With {attack} and ε = {epsilon}, the capsules keep their answer for {capsules} of {count} test digits, and the CNN for {cnn}.",
        { count, attack: shown.method.toUpperCase(), epsilon: epsilons[at].toFixed(2), capsules: count - capsules[at], cnn: count - cnn[at] }),
      t("As ε grows, the CNN changes first for {cnn}, the capsules for {capsules}; both change at the same step for {both}, and neither up to {last} for {neither}.",
        { ...attack[shown.method], last: epsilons.at(-1).toFixed(2) }),
    ].join(t(" "));
  });
  let chosen = settingOf("attack", "input", [DRAWN, ...offered.keys()], null); // "drawing", the number of an offered digit, or null until one is chosen
  let version = -1;
  let shown = null; // { response, image, images: { capsules, cnn } }

  for (const { change, bar } of networks) change.element.append(bar.element);
  thumbs.show(offered);
  stage.append(
    h("div", { class: "w12 toolbar" }, original.element, h("div", { class: "tool attack-digits" }, thumbs.element, own)),
    h("div", { class: "w12 toolbar" }, method.element, h("div", { class: "tool grow" }, epsilon.element)),
    h("div", { class: "w12 result attack-result" }, howOften.element, headline.element, explanation, createAnswerKey(t("an answer that the attack changed"))),
    ...networks.map(({ key, attacked, change, verdict, chart, bars }) =>
      card(`w6 result lined-up ${key}`, names[key], hints[key],
        networkLine(MODELS[key], "mnist").element, verdict.element, chart.element, h("div", { class: "pair" }, attacked.element, change.element),
        h("p", { class: "soft small" }, t("Pale bars: before the attack.")), bars.element)),
    h("p", { class: "w12 soft small result" },
      t("No color in the change: the pixel stayed as it was. Blank paper cannot lose ink, and full ink cannot gain any. The full color is a change by ε, so a small ε gives full colors too."), t(" "),
      t("These capsules are another network than in Draw: with shared weights, all places of the image vote with the same matrices.")),
  );

  const notice = createNotice(stage);
  const query = latestOnly("api/attack", stage, (response, body) => {
    shown = {
      response, image: body.image, method: body.method,
      images: Object.fromEntries(networks.map(({ key }) => [key, unpack(response[key].images, SIZE)])),
    };
    const step = response.epsilons[1];
    epsilon.input.step = step;
    epsilon.set(Math.round(epsilon.value / step) * step);
    const { big, words } = describeFirst(response);
    headline.set(big, words);
    headline.element.classList.add("plain"); // a color is for an answer; here a network gives way first
    explanation.textContent = body.method === "fgsm"
      ? t("FGSM goes one step of ε along the sign of the gradient. Tried with ε in steps of {step}.", { step })
      : t("PGD goes {count} steps, each along the sign of a new gradient, from one random start within ε. Tried with ε in steps of {step}.", { count: response.steps, step });
    draw();
  }, notice);

  function draw() {
    if (!shown) return;
    const { response, image, images } = shown;
    const { epsilons } = response;
    const at = nearest(epsilons, epsilon.value);
    howOften.show((response.capsules.after[at] === response.capsules.before) !== (response.cnn.after[at] === response.cnn.before));
    for (const { key, attacked, change, bar, verdict, chart, bars } of networks) {
      const { before, after, scores, changes_at: changesAt } = response[key];
      const rivals = scores.map((row) => strongest(row, before));
      const now = images[key][at];
      attacked.draw(ink(now));
      change.draw(signed(relativeChange(now, image, epsilons[at])));
      bar.show(numberText(-epsilons[at], 2), "0", numberText(epsilons[at], 2));
      const changed = before !== after[at];
      bars.update(scores[at], { [after[at]]: changed ? WRONG : COLORS[key] }, scores[0]);
      verdict.set(changed ? `${before} → ${after[at]}` : String(after[at]),
        t(changed ? "prediction changed at ε = {epsilon}" : "prediction unchanged at ε = {epsilon}", { epsilon: epsilons[at].toFixed(2) }));
      verdict.element.classList.toggle("wrong", changed);
      chart.show({
        x: epsilons,
        at,
        lines: [
          { name: t("first prediction, {digit}", { digit: before }), values: scores.map((row) => row[before]), kind: LINES[key] },
          { name: t("strongest other digit"), values: rivals.map(({ score }) => score), kind: "rival" },
        ],
        marks: changesAt === null ? [] : [{
          x: crossing(epsilons, scores.map((row, index) => row[before] - rivals[index].score), epsilons.indexOf(changesAt)),
          text: t("changes between {low} and {high}", between(epsilons, changesAt)),
        }],
        describe: (index) => t("ε = {epsilon}: {before} has {score}, {rival} has {second}", {
          epsilon: epsilons[index].toFixed(2), before, score: scores[index][before].toFixed(2),
          rival: rivals[index].digit, second: rivals[index].score.toFixed(2),
        }),
      });
    }
  }

  function pick(index) {
    epsilon.set(shown.response.epsilons[index]);
    keep();
    draw();
  }

  function keep() {
    keepSettings("attack", { method: method.value, epsilon: epsilon.value, ...(chosen === null ? {} : { input: chosen }) });
  }

  // Without a choice: what was drawn or chosen in Draw, or else the first digit.
  function input() {
    if (chosen !== null) return chosen;
    return isFirstExample(currentImage(), digits) ? FIRST : DRAWN;
  }

  function send() {
    const which = input();
    version = imageVersion();
    thumbs.mark(offered[which]);
    own.setAttribute("aria-pressed", String(which === DRAWN));
    keep();
    const image = which === DRAWN ? currentImage() : offered[which].image;
    original.element.hidden = !image;
    if (!image) {
      notice(t("There is no drawing yet. "), h("a", { href: "#draw" }, t("Draw a digit")));
      return;
    }
    const name = which === DRAWN ? t("Your drawing") : t("Test digit {digit}", { digit: offered[which].label });
    original.draw(ink(image), name);
    original.caption(name);
    query({ image, method: method.value });
  }

  return {
    show: () => (version === -1 || (typeof chosen !== "number" && version !== imageVersion())) && send(),
    exports: () => shown && {
      table: [["network", "epsilon", "prediction", ...shown.response.capsules.scores[0].map((_, digit) => `score_${digit}`)],
        ...networks.flatMap(({ key }) => shown.response.epsilons.map((size, index) =>
          [key, size, shown.response[key].after[index], ...shown.response[key].scores[index]]))],
      data: { image: shown.image, method: method.value, ...shown.response },
    },
  };
}

// Which network changes its prediction first.
function describeFirst({ epsilons, capsules, cnn }) {
  const [one, two] = [capsules.changes_at, cnn.changes_at];
  const text = (value) => value.toFixed(2);
  if (one === null && two === null) {
    return { big: t("Neither changes"), words: t("No prediction changes up to ε = {last}.", { last: text(epsilons[epsilons.length - 1]) }) };
  }
  if (one === two) return { big: t("Both change between ε = {low} and {high}", between(epsilons, one)), words: "" };
  const capsulesFirst = two === null || (one !== null && one < two);
  const [first, later] = capsulesFirst ? [one, two] : [two, one];
  const [network, other] = capsulesFirst ? [t("the capsules"), t("the CNN")] : [t("the CNN"), t("the capsules")];
  const values = { network, other, ...between(epsilons, first), last: text(epsilons[epsilons.length - 1]) };
  return {
    big: t("First to change: {network}", values),
    words: later === null
      ? t("For this digit, the answer of {network} changes between ε = {low} and {high}, that of {other} not up to {last}.", values)
      : t("For this digit, the answer of {network} changes between ε = {low} and {high}, that of {other} between {from} and {to}.",
        { ...values, from: between(epsilons, later).low, to: between(epsilons, later).high }),
  };
}

// The last ε that was tried without a change, and the first with one, as texts.
function between(epsilons, changesAt) {
  const [low, high] = [epsilons[epsilons.indexOf(changesAt) - 1], changesAt].map((value) => value.toFixed(2));
  return { low, high };
}

// Where the two lines of the chart cross: `lead` is positive before `index` and not at it.
function crossing(epsilons, lead, index) {
  const [before, after] = [lead[index - 1], lead[index]];
  return epsilons[index - 1] + (epsilons[index] - epsilons[index - 1]) * (before / (before - after || 1));
}

function nearest(values, wanted) {
  const distances = values.map((value) => Math.abs(value - wanted));
  return distances.indexOf(Math.min(...distances));
}

function strongest(scores, except) {
  const others = scores.map((score, digit) => (digit === except ? -Infinity : score));
  const score = Math.max(...others);
  return { digit: others.indexOf(score), score };
}

// The actual change relative to ε: less than 1 where a pixel was clipped to white or black.
function relativeChange(attacked, image, epsilon) {
  return attacked.map((row, y) => row.map((value, x) => (epsilon ? (value - image[y][x]) / epsilon : 0)));
}

// View 6: a toy from any viewpoint, recognized by capsules and by a CNN.

import { getCached, latestOnly } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkLine, sizeText } from "../core/networks.js";
import { keepSettings, numberOf } from "../core/settings.js";
import { COLORS, createAnswerKey, WRONG } from "../widgets/answer_key.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, gray } from "../widgets/canvas_image.js";
import { createChoices } from "../widgets/choices.js";
import { createHowOften } from "../widgets/how_often.js";
import { createLineChart } from "../widgets/line_chart.js";
import { createPoseMatrix } from "../widgets/pose_matrix.js";
import { createRing } from "../widgets/ring.js";
import { createSlider } from "../widgets/slider.js";

const SPEED = 40; // degrees per second of the automatic rotation
const TURN_DELAY = 250; // milliseconds
// A test toy that the capsules name and the CNN does not.
const FIRST = { category: 3, instance: 0, azimuth: 20, elevation: 45, lighting: 4 };
const DRAG = 0.8; // degrees per pixel when the picture is dragged
const TICKS = [0, 60, 120, 180, 240, 300];
const NETWORKS = { capsules: ["matrix_capsnet_small", "toys"], cnn: ["pooled_cnn", "toys"] };

export async function create(stage) {
  const toys = await getCached("api/toys");
  const { categories, trained } = toys;
  const names = { capsules: t("the capsules"), cnn: t("the CNN") };
  const eyes = [t("Left eye"), t("Right eye")].map((name) => figure(createImage({ label: name, kind: "grab" }), name));
  const ring = createRing({ label: t("Azimuth"), onTurn: () => { stop(); send(); } });
  const category = createChoices({
    label: t("Category"), options: categories.map((name, index) => [index, t(name)]), value: numberOf("toy", "category", [0, categories.length - 1], FIRST.category),
    onChange: send,
  });
  const instance = createSlider({
    label: t("Instance"), min: 0, max: toys.instances - 1, step: 1, value: numberOf("toy", "instance", [0, toys.instances - 1], FIRST.instance),
    format: (value) => t(trained.instances.includes(value) ? "{value}, used in training" : "{value}, not used in training", { value: value + 1 }),
    onInput: send,
  });
  const elevation = createSlider({
    label: t("Elevation"), min: 20, max: 80, step: 1, value: numberOf("toy", "elevation", [20, 80], FIRST.elevation),
    format: (value) => t(isOutside(value, trained.elevations) ? "{value}°, outside the training range" : "{value}°", { value }),
    onInput: send,
  });
  const lighting = createSlider({
    label: t("Lighting"), min: 0, max: toys.lightings.length - 1, step: 1, value: numberOf("toy", "lighting", [0, 5], FIRST.lighting),
    format: (value) => t("{value} of {count}", { value: value + 1, count: toys.lightings.length }), onInput: send,
  });
  const rotate = button(t("Rotate"), () => (frame === null ? start() : stop()), "main");
  const matrix = createPoseMatrix(t("Pose matrix of the capsule of the toy's class"));
  const [capsules, cnn] = Object.keys(names).map((key) => ({
    key, verdict: createVerdict(), bars: createBars({ labels: categories.map((name) => t(name)), label: t("Scores of {network}", { network: names[key] }) }),
  }));
  const accuracy = createLineChart({
    label: t("Accuracy of both networks for each azimuth"), xTitle: t("azimuth in degrees"), xTicks: TICKS, height: 230, format: percent,
    onPick: (index) => { stop(); ring.set(toys.azimuths[index]); send(); },
  });
  const moved = createBars({
    labels: [t("a full turn"), t("all {count} lightings", { count: toys.lightings.length })], label: t("How far the pose moves"), format: percent,
  });
  const [movedText, message] = [h("p", { class: "soft small" }), h("p", { class: "message" })];
  const howOften = createHowOften(({ toy }) =>
    t("Of {count} random images of the test set, both networks are right in {both}, only the capsules in {capsules}, only the CNN in {cnn}, and neither in {neither}.", toy));
  let turned = ""; // the toy whose turn is shown, or asked for
  let turns = null;
  let waiting = null;
  let shown = null; // the last request and its response
  let frame = null; // the pending animation frame while rotating

  const poseCard = card("w6 toy-pose result", t("Pose of this toy"), t("16 numbers, from the capsule of its class"), h("div", { class: "pair" },
    h("div", {}, h("h3", {}, t("How far it moves")),
      h("p", { class: "soft small" }, t("The largest distance between two of its poses, in % of their mean norm.")), moved.element, movedText,
      h("p", { class: "soft small" }, t("Lines in the matrix: each number around the ring, from its lowest to its highest value, so each line has its own scale. Upright stroke: now."))),
    h("div", {}, h("h3", {}, t("Pose matrix")), matrix.element)));
  const ringText = trained.azimuths.length < toys.azimuths.length ? t("Azimuth; thick ticks: used in training") : t("Azimuth; all were used in training");
  ring.mark(toys.azimuths, trained.azimuths);
  stage.append(
    h("div", { class: "w12 toolbar" }, category.element, rotate, howOften.element),
    h("div", { class: "w12 result verdicts" }, [[capsules, t("Capsules")], [cnn, t("CNN")]].map(([{ key, verdict }, name]) =>
      h("div", { class: key }, h("span", { class: "small soft" }, name), verdict.element))),
    card("w5 wide-first toy-seen", t("The toy"), t("a stereo pair, the input of both networks; drag it to turn it"),
      h("div", { class: "toy-row" }, eyes.map((eye) => eye.element), h("figure", { class: "toy-turn" }, ring.element, h("figcaption", {}, ringText))),
      instance.element, elevation.element, lighting.element),
    card("w7 wide-first toy-accuracy", t("Accuracy around the ring"), t("test toys, not used in training"), message, accuracy.element,
      h("p", { class: "soft small" }, t("{count} test images for each azimuth. Bands: 95 % confidence intervals.", { count: toys.accuracy.count[0].toLocaleString("en") }))),
    card("w3 toy-capsules result", t("Capsules"), t("softmax of the logits, not lengths as in Draw"), capsules.bars.element, networkLine(...NETWORKS.capsules).element),
    card("w3 toy-cnn result", t("CNN"), t("softmax of the logits"), cnn.bars.element, createAnswerKey(t("wrong answer")), networkLine(...NETWORKS.cnn).element),
    poseCard,
  );
  showMessage();
  eyes.forEach((eye) => turnByDragging(eye.element.firstChild));

  const query = latestOnly("api/toy", stage, (response, body) => {
    shown = { body, response };
    const label = categories[body.category];
    eyes.forEach((eye, side) => {
      eye.draw(gray(response.image[side]), t(side ? "Right eye: {label} from {azimuth}°" : "Left eye: {label} from {azimuth}°", { label: t(label), azimuth: Math.round(body.azimuth) }));
    });
    matrix.update(response.capsules.pose, body.azimuth);
    for (const { key, verdict, bars } of [capsules, cnn]) {
      const { best, scores } = response[key];
      const correct = best === body.category;
      bars.update(scores, { [best]: correct ? COLORS[key] : WRONG });
      verdict.set(t(categories[best]), correct ? t("correct") : t("wrong: it is {label}", { label: t(withArticle(label)) }));
      verdict.element.classList.toggle("wrong", !correct);
    }
    howOften.show((response.capsules.best === body.category) !== (response.cnn.best === body.category));
    showAccuracy(body.azimuth);
  }, createNotice(stage));

  const queryTurn = latestOnly("api/turn", poseCard, (response, body) => {
    if (turnKey(body) !== turned) return;
    turns = response;
    matrix.showTurn(response);
    moved.update([response.turn_moves, response.light_moves], { 0: COLORS.capsules, 1: COLORS.capsules });
  });

  // After a moment without another change, because it takes the work of 24 images.
  function sendTurn(body) {
    if (turnKey(body) === turned) return;
    turned = turnKey(body);
    turns = null;
    matrix.clear();
    clearTimeout(waiting);
    waiting = setTimeout(() => queryTurn(body), TURN_DELAY);
  }

  function showAccuracy(azimuth) {
    const { azimuths, accuracy: measured } = toys;
    const lines = [["capsules", "one"], ["cnn", "two"]].map(([key, kind]) => ({
      name: names[key], kind, values: measured[key].map(({ share }) => share), band: measured[key].map(({ low, high }) => [low, high]),
    }));
    const text = ({ share, low, high }) => `${percent(share, 1)} (${(low * 100).toFixed(1)}–${(high * 100).toFixed(1)})`;
    accuracy.show({
      x: azimuths, at: Math.round(azimuth / 20) % azimuths.length, lines,
      describe: (index) => t("{azimuth}°: the capsules {capsules}, the CNN {cnn}; {count} images", {
        azimuth: azimuths[index], capsules: text(measured.capsules[index]), cnn: text(measured.cnn[index]), count: measured.count[index].toLocaleString("en"),
      }),
    });
  }

  // What the curves say; without the sizes of the networks if one of them is not installed.
  async function showMessage() {
    const { capsules: ours, cnn: theirs } = toys.accuracy;
    const wins = ours.filter(({ share }, index) => share > theirs[index].share).length;
    message.textContent = t("The capsules are right more often in {wins} of {count} directions, in {clear} of them by more than chance (two standard errors).",
      { wins, count: ours.length, clear: clearWins(toys.accuracy) });
    const { models } = await getCached("api/status");
    const [small, large] = Object.values(NETWORKS).map((key) => models.find(({ id }) => id === key.join("-")));
    if (!small || !large) return;
    message.append(t(" "), t("They have {share} of the CNN's parameters: {small} against {large}.", {
      share: percent(small.num_params / large.num_params), small: await sizeText(small.id), large: await sizeText(large.id),
    }));
  }

  // Sideways: azimuth; up and down: elevation.
  function turnByDragging(picture) {
    let last = null;
    picture.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      picture.setPointerCapture(event.pointerId);
      last = [event.clientX, event.clientY];
    });
    picture.addEventListener("pointermove", (event) => {
      if (!last) return;
      stop();
      ring.set(ring.degrees + (event.clientX - last[0]) * DRAG);
      elevation.set(Math.max(20, Math.min(80, elevation.value + (event.clientY - last[1]) * DRAG * 0.5)));
      last = [event.clientX, event.clientY];
      send();
    });
    for (const end of ["pointerup", "pointercancel"]) picture.addEventListener(end, () => { last = null; });
  }

  function send() {
    const body = {
      category: category.value, instance: instance.value, azimuth: Math.round(ring.degrees * 10) / 10 % 360,
      elevation: elevation.value, lighting: lighting.value,
    };
    if (frame === null) keepSettings("toy", body);
    query(body);
    sendTurn(body);
  }

  function start() {
    rotate.textContent = t("Stop");
    let last = performance.now();
    const tick = (now) => {
      ring.set(ring.degrees + ((now - last) / 1000) * SPEED);
      last = now;
      send();
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  }

  function stop() {
    if (frame === null) return;
    cancelAnimationFrame(frame);
    frame = null;
    send();
    rotate.textContent = t("Rotate");
  }

  getCached("api/differences").then(({ poses }) => {
    movedText.textContent = t("A turn moves the pose farther than the light in {more} of {count} test toys: by {turn} against {light} (medians). So the light changes it too, but less.", {
      more: poses.more_by_turn, count: poses.count, light: percent(poses.light), turn: percent(poses.turn),
    });
  }, () => {});
  ring.set(numberOf("toy", "azimuth", [0, 360], FIRST.azimuth));
  send();
  return {
    hide: stop,
    exports: () => shown && {
      table: [["category", "capsules", "cnn"], ...categories.map((name, index) => [name, shown.response.capsules.scores[index], shown.response.cnn.scores[index]])],
      data: { ...shown.body, ...shown.response, turn: turns },
    },
  };
}

// In how many directions the capsules are right more often by more than two standard errors of the difference.
export function clearWins({ capsules, cnn, count }) {
  return capsules.filter(({ share: one }, index) => {
    const two = cnn[index].share;
    return one - two > 2 * Math.sqrt((one * (1 - one) + two * (1 - two)) / count[index]);
  }).length;
}

// A turn depends on all but the azimuth.
function turnKey({ category, instance, elevation, lighting }) {
  return [category, instance, elevation, lighting].join();
}

function isOutside(value, known) {
  return known.length > 0 && (value < Math.min(...known) || value > Math.max(...known));
}

function withArticle(noun) {
  return `${/^[aeiou]/.test(noun) ? "an" : "a"} ${noun}`;
}

function percent(share, digits = 0) {
  return `${(share * 100).toFixed(digits)} %`;
}

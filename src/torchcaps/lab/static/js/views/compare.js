// View 8: two networks on the same input.

import { getCached, latestOnly, reportError } from "../core/api.js";
import { card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { fullName, networkDetails, networkName, sizeText, trainedOn } from "../core/networks.js";
import { numberText } from "../core/scale.js";
import { keepSettings, numberOf, settingOf } from "../core/settings.js";
import { currentImage, imageVersion } from "../core/state.js";
import { COLORS, createAnswerKey, WRONG } from "../widgets/answer_key.js";
import { createBars } from "../widgets/bars.js";
import { createChoices } from "../widgets/choices.js";
import { createColorBar } from "../widgets/color_bar.js";
import { digitExamples, isFirstExample } from "../widgets/example_thumbs.js";
import { createHowOften } from "../widgets/how_often.js";
import { change, createPicture, createPictureThumbs, inked, packGray, photo } from "../widgets/packed_picture.js";
import { createSlider } from "../widgets/slider.js";

const DEFAULTS = ["shared_capsnet-mnist", "pooled_cnn-mnist"]; // the networks of Attack, of about equal size
const FIRST = 3; // of the test digits: the attack that is chosen first changes the answer of one network
const MUCH_LARGER = 2;
const MEANINGS = {
  lengths: "lengths of capsules: each from 0 to 1, independent of the others",
  independent: "each score from 0 to 1, independent of the others",
  softmax: "a softmax: the scores add up to 1",
};
const CHANNELS = { 1: "gray images", 2: "stereo pairs", 3: "color images" };

export async function create(stage) {
  const { models, classes } = await getCached("api/status");
  const ids = models.map((model) => model.id);
  const find = (id) => models.find((model) => model.id === id);
  const chosen = ["a", "b"].map((name, side) => settingOf("compare", name, ids, ids.includes(DEFAULTS[side]) ? DEFAULTS[side] : ids[side]));
  let wanted = numberOf("compare", "input", [0, 100], null); // the number of the image that was chosen among those that are offered
  let offered = [];
  let input = null; // { label, image } of an example, or null for the drawing
  let version = -1;

  const selects = [t("First network"), t("Second network")].map((label, side) => {
    const select = h("select", { "aria-label": label, onchange: () => choose(side, select.value) });
    return select;
  });
  const reason = h("p", { class: "soft small w12" });
  const attack = createChoices({
    label: t("Attack"), options: [["none", t("No attack")], ["fgsm", "FGSM"], ["pgd", "PGD"]],
    value: settingOf("compare", "attack", ["none", "fgsm", "pgd"], "fgsm"), onChange: send,
  });
  const epsilon = createSlider({
    label: t("ε, the largest change of a pixel"), min: 0, max: 0.5, step: 0.01, value: numberOf("compare", "epsilon", [0, 0.5], 0.1),
    format: (value) => value.toFixed(2), onInput: send,
  });
  const thumbs = createPictureThumbs({ label: t("Images"), onPick: pick });
  const source = h("p", { class: "soft small" });
  const toy = createToyControls(classes.toys, send);
  const inputCard = card("w7", t("The input"), null, source, thumbs.element, toy.element);
  const attackCard = card("w5", t("Attack"), null, attack.element, epsilon.element,
    h("p", { class: "soft small" }, t("Pixels go from 0 to 1. FGSM takes one step along the sign of the gradient, PGD ten smaller ones from a random start.")));
  const sizes = h("p", { class: "small sizes" });
  const sides = h("div", { class: "world" });
  const verdicts = h("div", { class: "w12 result verdicts" });
  const howOften = createHowOften(({ compare, compare_epsilon: size }) => t("Of {count} test digits, {attack} with ε = {epsilon} changes the answer of both networks for {both}, of the capsules alone for {capsules}, of the CNN alone for {cnn}, and of neither for {neither}.",
    { ...compare[attack.value], attack: attack.value.toUpperCase(), epsilon: size.toFixed(2) }));

  stage.append(
    h("div", { class: "w12 network-choice" }, selects),
    reason,
    verdicts,
    h("div", { class: "w12" }, sizes, h("div", { class: "result" }, howOften.element), createAnswerKey(t("an answer that the attack changed"))),
    inputCard,
    attackCard,
    sides,
  );
  let results = [];
  let shown = null; // the last request and its response
  const query = latestOnly("api/compare", stage, (response, body) => {
    shown = { response, body };
    response.networks.forEach((result, side) => results[side]?.show(result, body));
    showHowOften(body);
  }, createNotice(stage));

  // It was measured for the networks and the attack that the view opens with.
  async function showHowOften({ networks, attack: method, epsilon: size }) {
    const { compare_epsilon: measured } = await getCached("api/differences");
    if (networks.some((id, side) => id !== DEFAULTS[side]) || method === "none" || size !== measured) return howOften.clear();
    const changed = shown.response.networks.map(({ best, attacked }) => attacked.best !== best);
    return howOften.show(changed[0] !== changed[1]);
  }

  function partners(id) {
    return models.filter((model) => model.id !== id && model.in_channels === find(id).in_channels);
  }

  function choose(side, id) {
    chosen[side] = id;
    const other = 1 - side;
    const possible = partners(id);
    if (!possible.some((model) => model.id === chosen[other])) {
      chosen[other] = (possible.find((model) => model.data === find(id).data) ?? possible[0])?.id ?? null;
    }
    return update();
  }

  async function update() {
    const first = find(chosen[0]);
    selects[0].replaceChildren(...options(models, chosen[0]));
    selects[1].replaceChildren(...options(partners(chosen[0]), chosen[1]));
    reason.hidden = chosen[1] !== null;
    reason.textContent = t("No other network here reads {kind}, as {name} does.", { kind: kindText(first.in_channels), name: fullName(first) });
    results = chosen[1] === null ? [] : chosen.map((id) => createSide(find(id)));
    sides.classList.toggle("undecoded", chosen.every((id) => id !== null && !find(id).decoder));
    sides.replaceChildren(...results.map((each) => each.element));
    verdicts.replaceChildren(...results.map((each, side) =>
      h("div", { class: kindOf(find(chosen[side])) }, h("span", { class: "small soft" }, fullName(find(chosen[side]))), each.verdict)));
    showSizes();
    const stereo = first.in_channels === 2;
    toy.element.hidden = !stereo;
    thumbs.element.hidden = source.hidden = stereo;
    input = null;
    if (chosen[1] !== null && !stereo) await loadInputs();
    send();
  }

  // A larger network may do better for that reason alone.
  async function showSizes() {
    const pair = chosen[1] === null ? [] : [...chosen];
    const [one, two] = await Promise.all(pair.map((id) => sizeText(id)));
    if (pair.some((id, side) => id !== chosen[side])) return;
    const counts = pair.map((id) => find(id).num_params);
    const factor = Math.max(...counts) / Math.min(...counts);
    sizes.textContent = pair.length ? t("Parameters: {one} and {two}.", { one, two }) : "";
    if (factor > MUCH_LARGER) sizes.append(t(" "), h("b", {}, t("One network is {factor} times as large as the other: a difference may come from that.", { factor: factor.toFixed(1) })));
  }

  // Images that suit the networks, and the drawing if they read gray images.
  async function loadInputs() {
    const pair = [...chosen];
    try {
      const lists = await Promise.all(pair.map((id) => getCached(`api/inputs?network=${encodeURIComponent(id)}`)));
      if (pair.some((id, side) => id !== chosen[side])) return;
      const used = lists.filter((list, index) => lists.findIndex((other) => other.source === list.source) === index);
      const drawing = drawn();
      const items = [...(drawing ? [drawing] : []), ...used.flatMap((list) => list.images.slice(0, 10))];
      source.textContent = [...(drawing ? [t("Your drawing")] : []), ...used.filter((list) => list.images.length).map((list) => t(list.source))].join(t(", then "));
      offered = items;
      thumbs.show(items, painterOf(find(chosen[0])), drawing);
      const drawnByHand = !isFirstExample(currentImage(), await digitExamples());
      pick(items[wanted ?? (drawing && drawnByHand ? 0 : FIRST + (drawing ? 1 : 0))] ?? items[0] ?? null, false);
    } catch (error) {
      reportError(error);
    }
  }

  function drawn() {
    const gray = find(chosen[0]).in_channels === 1;
    version = imageVersion();
    return gray && currentImage() ? { label: t("Your drawing"), image: packGray(currentImage()) } : null;
  }

  function pick(item, sending = true) {
    input = item;
    thumbs.mark(item);
    if (!sending) return;
    wanted = Math.max(0, offered.indexOf(item));
    send();
  }

  function send() {
    epsilon.element.hidden = attack.value === "none";
    keepSettings("compare", { a: chosen[0], ...(chosen[1] ? { b: chosen[1] } : {}), attack: attack.value, epsilon: epsilon.value,
      ...(find(chosen[0]).in_channels === 2 ? toy.value() : wanted === null ? {} : { input: wanted }) });
    if (chosen[1] === null) return;
    const stereo = find(chosen[0]).in_channels === 2;
    if (!stereo && !input) return;
    query({ networks: chosen, attack: attack.value, epsilon: epsilon.value, ...(stereo ? { toy: toy.value() } : { image: input.image }) });
  }

  await choose(0, chosen[0]);
  // Another drawing since the last visit takes the place of the old one.
  return {
    show: () => { if (version !== -1 && version !== imageVersion()) update(); },
    exports: () => shown && {
      table: [["network", "class", "score"], ...shown.response.networks.flatMap(({ scores }, side) => {
        const network = find(shown.body.networks[side]);
        return scores.map((score, index) => [network.id, network.classes[index], score]);
      })],
      data: { ...shown.body, results: shown.response.networks },
    },
  };
}

// By the images that they were trained on: on a phone there is no room for these in every name.
function options(models, selected) {
  return [...new Set(models.map(trainedOn))].map((data) => h("optgroup", { label: data },
    models.filter((model) => trainedOn(model) === data).map((model) =>
      h("option", { value: model.id, selected: model.id === selected, title: model.id }, networkName(model)))));
}

// Gray images as ink on paper, as in the other views; toys as photographs.
function painterOf({ in_channels: channels }) {
  return channels === 1 ? inked : photo;
}

function kindText(channels) {
  return t(CHANNELS[channels] ?? "images with {count} channels", { count: channels });
}

// "capsules" or "cnn"
function kindOf({ model }) {
  return /cnn/.test(model) ? "cnn" : "capsules";
}

// What one network says: its scores, the image, the reconstruction if there is a decoder, and the attack.
function createSide(network) {
  const gray = network.in_channels === 1;
  const paintOf = painterOf(network);
  const verdict = createVerdict();
  const labels = network.classes.map((name) => t(name));
  const bars = createBars({ labels, label: t("Scores of {name}", { name: fullName(network) }) });
  const pale = h("p", { class: "soft small", hidden: true }, t("Pale bars: before the attack."));
  const shown = (label, caption, smooth) => {
    const picture = createPicture({ label, smooth });
    const text = h("figcaption", {}, caption);
    return { draw: picture.draw, caption: text, element: h("figure", {}, picture.element, text) };
  };
  const seen = shown(t("What the network gets"), t("What the network gets"), gray);
  const again = shown(t("Reconstruction"), "", true);
  const attacked = shown(t("Attacked image"), t("Attacked image"), gray);
  const difference = shown(t("Change of each pixel"), t(gray ? "Change: purple more ink, green less" : "Change: purple brighter, green darker"), false);
  const bar = createColorBar({ label: t("Change of each pixel"), kind: "signed", paper: true });
  difference.element.append(bar.element);
  const none = h("p", { class: `soft small no-picture${network.in_channels === 2 ? " stereo" : ""}` }, t("No reconstruction: this network has no decoder."));
  const element = card(`w6 result compared lined-up ${kindOf(network)}`, fullName(network), t(MEANINGS[network.scores]), networkDetails(network).element, pale, bars.element,
    h("div", { class: "pair" }, seen.element, again.element, none, attacked.element, difference.element));

  function show(result, { epsilon }) {
    const { best, scores, attacked: after } = result;
    const score = (values, index) => values[index].toFixed(2);
    seen.draw(paintOf(result.seen));
    again.element.hidden = !result.reconstruction;
    none.hidden = Boolean(result.reconstruction);
    if (result.reconstruction) again.draw(paintOf(result.reconstruction));
    again.caption.textContent = t("Reconstruction from the capsule of {name}", { name: labels[best] });
    attacked.element.hidden = difference.element.hidden = pale.hidden = !after;
    seen.caption.textContent = after ? t("Before the attack") : t("What the network gets");
    const changed = Boolean(after) && after.best !== best;
    verdict.element.classList.toggle("wrong", changed);
    if (!after) {
      verdict.set(labels[best], t("score {score}", { score: score(scores, best) }));
      bars.update(scores, { [best]: COLORS[kindOf(network)] });
      return;
    }
    attacked.draw(paintOf(after.image));
    difference.draw(change(result.seen, after.image, epsilon));
    bar.show(numberText(-epsilon, 2), "0", numberText(epsilon, 2));
    verdict.set(changed ? `${labels[best]} → ${labels[after.best]}` : labels[best], changed
      ? t("before the attack {first} had score {before}; now {second} has {after}",
        { first: labels[best], before: score(scores, best), second: labels[after.best], after: score(after.scores, after.best) })
      : t("score {before} before the attack, {after} now", { before: score(scores, best), after: score(after.scores, best) }));
    bars.update(after.scores, { [after.best]: changed ? WRONG : COLORS[kindOf(network)] }, scores);
  }

  return { element, verdict: verdict.element, show };
}

function createToyControls(categories, onChange) {
  const category = createChoices({ label: t("Toy"), options: categories.map((name, index) => [index, t(name)]), value: Math.round(numberOf("compare", "category", [0, categories.length - 1], 0)), onChange });
  const slider = (name, label, min, max, value, format = (number) => `${number}°`) =>
    createSlider({ label: t(label), min, max, step: 1, value: numberOf("compare", name, [min, max], value), format, onInput: onChange });
  const azimuth = slider("azimuth", "Azimuth", 0, 359, 20);
  const elevation = slider("elevation", "Elevation", 20, 80, 45);
  const instance = slider("instance", "Instance", 0, 9, 0, (value) => String(value + 1));
  const lighting = slider("lighting", "Lighting", 0, 5, 0, (value) => t("{value} of {count}", { value: value + 1, count: 6 }));
  return {
    element: h("div", { class: "toy-controls" }, category.element,
      h("div", { class: "pair" }, azimuth.element, elevation.element, instance.element, lighting.element)),
    value: () => ({
      category: category.value, azimuth: azimuth.value, elevation: elevation.value, instance: instance.value, lighting: lighting.value,
    }),
  };
}

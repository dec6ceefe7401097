// View 9: the run that was given with --run: the curves of its training, and its network on an image.

import { ConnectionError, get, latestOnly, reportError, RETRY_DELAY } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { networkDetails } from "../core/networks.js";
import { numberText } from "../core/scale.js";
import { createBars } from "../widgets/bars.js";
import { createColorBar } from "../widgets/color_bar.js";
import { createPad } from "../widgets/drawing_pad.js";
import { createPicture, createPictureThumbs, masked, packGray, photo } from "../widgets/packed_picture.js";
import { createRunCurves } from "./run_curves.js";
import { readFile } from "./run_upload.js";

const [POLL, SLOW_POLL] = [1500, 5000]; // milliseconds, while it is trained and otherwise
const STATES = { running: "in training", finished: "finished", stopped: "stopped before its end" };
const MAX_BARS = 20; // of many classes, those with the highest scores

export async function create(stage) {
  const curves = createRunCurves();
  const state = createVerdict();
  const facts = networkDetails();
  const panel = h("div", { class: "world" });
  let info = null;
  let weights = null; // the step of the weights that are shown
  let timer = null;
  let visible = false;
  let place = { next: 0, session: 0 };

  stage.append(card("w12", t("Training"), null, state.element, curves.element, facts.element), panel);
  const notice = createNotice(panel);
  const reader = createReader(panel, notice);

  async function refresh() {
    info = await get("api/run");
    state.set(t(STATES[info.state]), t("{model} on {data}, {epochs} epochs in its recipe", { model: info.model, data: info.data, epochs: info.epochs }));
    state.element.classList.add("plain");
    notice(info.network ? null : t("There are no weights yet: they are saved at the end of an epoch, or after two minutes."));
    if (!info.network || info.step === weights) return;
    const first = weights === null;
    weights = info.step;
    const { models } = await get("api/status");
    facts.show(models.find((model) => model.id === "run"), [t("Weights of step {step}", { step: (info.step ?? 0).toLocaleString("en") })]);
    if (first) await reader.open(info);
    else reader.again();
  }

  async function poll() {
    clearTimeout(timer);
    let delay = RETRY_DELAY;
    try {
      const response = await get(`api/run/metrics?after=${place.next}&session=${place.session}`);
      place = { next: response.next, session: response.session };
      curves.add(response.points, response.reset);
      if (!info || response.state !== info.state || response.points.length) await refresh();
      delay = response.state === "running" ? POLL : SLOW_POLL;
    } catch (error) {
      reportError(error);
      if (!(error instanceof ConnectionError)) delay = SLOW_POLL;
    }
    clearTimeout(timer);
    if (visible) timer = setTimeout(poll, delay);
  }

  await poll();
  return {
    show: () => { visible = true; poll(); },
    hide: () => { visible = false; clearTimeout(timer); },
    exports: () => curves.points.length && { table: tableOf(curves.points), data: { run: info, metrics: curves.points } },
  };
}

function tableOf(points) {
  const names = Object.keys(points[0]);
  return [names, ...points.map((point) => names.map((name) => point[name] ?? ""))];
}

// Choose, draw or upload an image, and see what the network says.
function createReader(panel, notice) {
  const thumbs = createPictureThumbs({ label: t("Test images of the run"), onPick: (item) => send({ image: item.image }, item) });
  const verdict = createVerdict();
  const seen = createPicture({ label: t("What the network gets") });
  const again = createPicture({ label: t("Reconstruction"), smooth: true });
  const againFigure = h("figure", {}, again.element, h("figcaption", {}, t("Reconstruction from the capsule of the best class")));
  const file = h("input", { type: "file", accept: "image/png,image/jpeg,image/webp", class: "file", "aria-label": t("Upload an image"), onchange: upload });
  const pad = createPad({ label: t("Area to draw an image"), onChange: (pixels) => pixels && send({ image: packGray(pixels) }) });
  const padBox = h("div", { class: "run-pad" }, pad.element, h("div", { class: "row" }, button(t("Undo"), pad.undo), button(t("Clear"), pad.clear)));
  const scores = h("div", {});
  const lengths = h("p", { class: "soft small" });
  const capsules = h("div", {});
  const maps = h("div", { class: "run-maps" });
  const mapText = h("p", { class: "soft small" }, t("Color: how much each place of the image sends to the class, from the least to the most. Below: the capsules that send most."));
  const bar = createColorBar({ label: t("How much a place sends"), kind: "above" });
  const paths = h("ul", { class: "tree", "aria-label": t("Capsules that send most") });
  const couplingCard = card("w8 result wide-first", t("Couplings"), t("which capsules send to the classes"), maps, bar.element, mapText, paths);
  const meaning = h("p", { class: "soft small" });
  let classes = [];
  let last = null; // the body of the last request
  let chosen = null;

  panel.append(
    card("w4 tall", t("The image"), null, verdict.element, thumbs.element,
      h("label", { class: "button upload" }, t("Upload an image"), file), padBox),
    card("w4 result", t("Scores"), null, scores, lengths, meaning),
    card("w4 result", t("The network's input"), null, h("div", { class: "pair" }, h("figure", {}, seen.element, h("figcaption", {}, t("What the network gets"))), againFigure), capsules),
    couplingCard,
  );
  const query = latestOnly("api/run/image", panel, show, notice);

  async function upload() {
    const [content] = file.files;
    file.value = "";
    if (!content) return;
    try {
      send({ file: await readFile(content) });
    } catch (error) {
      verdict.set(t("not an image"), error.message);
    }
  }

  function send(body, item = null) {
    last = body;
    chosen = item;
    thumbs.mark(item);
    query(body);
  }

  function show(response) {
    const { best, scores: values } = response;
    const known = chosen ? t("the data set says {name}", { name: chosen.label }) : "";
    verdict.set(classes[best], [values[best].toFixed(2), known].filter(Boolean).join("; "));
    verdict.element.classList.toggle("wrong", Boolean(chosen) && chosen.label !== classes[best]);
    seen.draw(photo(response.seen));
    againFigure.hidden = !response.reconstruction;
    if (response.reconstruction) again.draw(photo(response.reconstruction));
    scores.replaceChildren(barsOf(t("Scores"), values, best));
    showCapsules(response);
    showCouplings(response);
  }

  function barsOf(label, values, best, max = 1) {
    const order = values.map((_, index) => index).sort((a, b) => values[b] - values[a]).slice(0, MAX_BARS);
    const kept = values.length > MAX_BARS ? order : values.map((_, index) => index);
    const bars = createBars({ labels: kept.map((index) => classes[index]), label, max });
    bars.update(kept.map((index) => values[index]), { [kept.indexOf(best)]: "var(--accent)" });
    return bars.element;
  }

  function showCapsules({ scores: values, norms, pose_dim: size, best }) {
    const same = norms && values.every((value, index) => Math.abs(value - norms[index]) < 0.01);
    lengths.hidden = !same;
    if (same) {
      lengths.textContent = t("The scores are the lengths of the class capsules, which have {size} numbers each.", { size });
      capsules.replaceChildren();
      return;
    }
    if (!norms) {
      capsules.replaceChildren(h("p", { class: "soft small" }, t("This network has no capsules.")));
      return;
    }
    capsules.replaceChildren(h("h3", {}, t("Class capsules")),
      h("p", { class: "soft small" }, t("{size} numbers each; the length of each pose:", { size })),
      barsOf(t("Lengths of the class capsules"), norms, best, Math.max(1, ...norms)));
  }

  function showCouplings({ seen: image, maps: masks, map_range: range, paths: nodes }) {
    couplingCard.hidden = !masks.length && !nodes.length;
    mapText.hidden = bar.element.hidden = !masks.length;
    if (range) bar.show(numberText(range[0], 3), numberText(range[1], 3));
    maps.replaceChildren(...masks.map(({ kind, mask }) => {
      const picture = createPicture({ label: t("Where {name} gets its votes from", { name: classes[kind] }), resolution: 196 });
      const fits = mask.height === image.height && mask.width === image.width;
      picture.draw(fits ? masked(image, mask) : photo(mask));
      return h("figure", {}, picture.element, h("figcaption", {}, classes[kind]));
    }));
    paths.replaceChildren(...nodes.map(pathNode));
  }

  return {
    async open({ classes: names, in_channels: channels, image_size: size }) {
      classes = names;
      padBox.hidden = channels !== 1;
      meaning.textContent = t("Images of {width} × {height} pixels; others are scaled as in training.", { width: size[1], height: size[0] });
      const { images } = await get("api/run/images");
      thumbs.show(images);
      if (images.length) send({ image: images[0].image }, images[0]);
    },
    again: () => last && query(last),
  };
}

function pathNode({ name, presence, coupling, share, position, children }) {
  const details = [numberText(presence, 2)];
  if (position) details.push(t("row {row}, column {column}", { row: position[0] + 1, column: position[1] + 1 }));
  if (coupling !== null) details.push(t("coupling {value}", { value: numberText(coupling, 2) }));
  if (share !== null) details.push(t("{share} % of what it gets", { share: numberText(100 * share, 1) }));
  return h("li", {}, h("div", { class: "node" }, h("b", {}, name), h("span", {}, details.join(", "))),
    children.length ? h("ul", {}, children.map(pathNode)) : null);
}

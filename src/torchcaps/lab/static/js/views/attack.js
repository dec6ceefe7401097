// View 7: the fast gradient sign method against each network.

import { latestOnly } from "../core/api.js";
import { card, h } from "../core/dom.js";
import { createImageNotice, createVerdict } from "../core/feedback.js";
import { networkLine } from "../core/networks.js";
import { keepSettings, numberOf } from "../core/settings.js";
import { currentImage, imageVersion } from "../core/state.js";
import { createBars } from "../widgets/bars.js";
import { createImage, figure, ink, signed } from "../widgets/canvas_image.js";
import { createSlider } from "../widgets/slider.js";

const NAMES = { capsules: "Capsules", cnn: "CNN" };
const HINTS = { capsules: "lengths, each from 0 to 1", cnn: "scores that add up to 1" };
const MODELS = { capsules: "shared_capsnet", cnn: "pooled_cnn" };

export function create(stage) {
  const epsilon = createSlider({
    label: "ε, the maximum change of a pixel", min: 0, max: 0.5, step: 0.01, value: numberOf("attack", "epsilon", [0, 0.5], 0.1),
    format: (value) => `${value.toFixed(2)} of 1`, onInput: send,
  });
  const original = figure(createImage({ label: "Your drawing", resolution: 168 }), "Your drawing");
  const networks = Object.keys(NAMES).map((key) => ({
    key,
    attacked: figure(createImage({ label: `Attacked image for ${NAMES[key]}` }), "Attacked image"),
    change: figure(createImage({ label: "Change of each pixel", smooth: false }), "Change, amplified"),
    verdict: createVerdict(),
    bars: createBars({ labels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], label: `Scores of ${NAMES[key]} under attack` }),
  }));
  let version = -1;

  stage.append(
    h("div", { class: "w12 toolbar" }, original.element, h("div", { class: "tool grow" }, epsilon.element)),
    ...networks.map(({ key, attacked, change, verdict, bars }) =>
      card("w6 result", NAMES[key], HINTS[key],
        verdict.element, h("div", { class: "pair" }, attacked.element, change.element), bars.element,
        networkLine(MODELS[key], "mnist").element)),
    h("p", { class: "w12 soft small result" },
      "These capsules are another network than in Draw, with shared weights. Purple: ink was added; green: ink was removed. Changes are shown relative to ε, so a small ε gives full colors too."),
  );

  const notice = createImageNotice(stage);
  const query = latestOnly("api/attack", stage, (response, body) => {
    if (body.image === currentImage()) version = imageVersion();
    for (const { key, attacked, change, verdict, bars } of networks) {
      const { before, after, scores, image } = response[key];
      attacked.draw(ink(image));
      change.draw(signed(relativeChange(image, body)));
      const changed = before !== after;
      bars.update(scores, { [after]: changed ? "var(--second)" : "var(--accent)" });
      verdict.set(changed ? `${before} → ${after}` : String(after),
        `prediction ${changed ? "changed" : "unchanged"} at ε = ${body.epsilon.toFixed(2)}`);
      verdict.element.classList.toggle("wrong", changed);
    }
  }, notice);

  function send() {
    if (!currentImage()) {
      notice(null);
      return;
    }
    original.draw(ink(currentImage()));
    keepSettings("attack", { epsilon: epsilon.value });
    query({ image: currentImage(), epsilon: epsilon.value });
  }

  return { show: () => version !== imageVersion() && send() };
}

// The actual change relative to ε: less than 1 where a pixel was clipped to white or black.
function relativeChange(attacked, { image, epsilon }) {
  return attacked.map((row, y) => row.map((value, x) => (epsilon ? (value - image[y][x]) / epsilon : 0)));
}

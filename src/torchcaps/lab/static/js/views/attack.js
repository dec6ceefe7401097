// View 7: one signed gradient step against each network.

import { card, h } from "../dom.js";
import { createBars } from "../bars.js";
import { createImage, figure, ink, signed } from "../canvas_image.js";
import { createImageNotice } from "../notice.js";
import { createSlider } from "../slider.js";
import { createVerdict } from "../verdict.js";
import { currentImage, imageVersion } from "../state.js";
import { newest } from "../api.js";

const NAMES = { capsules: "Capsules", cnn: "CNN" };

export function create(stage) {
  const epsilon = createSlider({
    label: "ε, the most a pixel may change", min: 0, max: 0.5, step: 0.01, value: 0.1,
    format: (value) => `${value.toFixed(2)} of 1`, onInput: send,
  });
  const original = figure(createImage({ label: "The image of Draw", resolution: 168 }), "From Draw");
  const sides = Object.keys(NAMES).map((key) => ({
    key,
    attacked: figure(createImage({ label: `What ${NAMES[key]} is shown` }), "What it is shown"),
    change: figure(createImage({ label: "Direction of the change", smooth: false }), "The change, magnified"),
    verdict: createVerdict(),
    bars: createBars({ labels: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], label: `Scores of ${NAMES[key]} under attack` }),
  }));
  let version = -1;

  stage.append(
    h("div", { class: "w12 toolbar" }, original.element, h("div", { class: "tool grow" }, epsilon.element)),
    ...sides.map(({ key, attacked, change, verdict, bars }) => card("w6 result", NAMES[key], "attacked with its own gradient",
      verdict.element, h("div", { class: "pair" }, attacked.element, change.element), bars.element)),
    h("p", { class: "w12 soft small result" },
      "Orange: ink was added; blue: ink was taken away. The change is shown as a share of ε, so even a tiny attack is seen in full color."),
  );

  const notice = createImageNotice(stage);
  const ask = newest("api/attack", stage, (answer, body) => {
    if (body.image === currentImage()) version = imageVersion();
    for (const { key, attacked, change, verdict, bars } of sides) {
      const { before, after, scores, image } = answer[key];
      attacked.draw(ink(image));
      change.draw(signed(difference(image, body)));
      const fallen = before !== after;
      bars.update(scores, { [after]: fallen ? "var(--second)" : "var(--accent)" });
      verdict.set(fallen ? `${before} → ${after}` : String(after),
        fallen ? `fooled at ε = ${body.epsilon.toFixed(2)}` : `stands at ε = ${body.epsilon.toFixed(2)}`);
      verdict.element.classList.toggle("wrong", fallen);
    }
  }, notice);

  function send() {
    if (!currentImage()) {
      notice(null);
      return;
    }
    original.draw(ink(currentImage()));
    ask({ image: currentImage(), epsilon: epsilon.value });
  }

  return { show: () => version !== imageVersion() && send() };
}

// What was really added, as a share of ε: paper cannot get lighter nor full ink darker.
function difference(attacked, { image, epsilon }) {
  return attacked.map((row, y) => row.map((value, x) => (epsilon ? (value - image[y][x]) / epsilon : 0)));
}

// Example digits of the test set as buttons.

import { createImage, ink } from "./canvas_image.js";
import { getCached } from "../core/api.js";
import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";

export async function digitExamples() {
  return (await getCached("api/examples")).digits;
}

// The class of the digit that is drawn when the page opens: one with a loop, which is interesting in Tweak.
export const FIRST_EXAMPLE = 2;

// Whether this image is the digit that the page opened with, which nobody drew or chose.
export function isFirstExample(image, digits) {
  return image === digits.find((digit) => digit.label === FIRST_EXAMPLE)?.image;
}

// One digit of each class; every call returns the next ones.
let turn = 0;
export function oneOfEach(digits) {
  const byClass = new Map();
  for (const digit of digits) byClass.set(digit.label, [...(byClass.get(digit.label) ?? []), digit]);
  const selection = [...byClass.keys()].sort((a, b) => a - b).map((label) => {
    const list = byClass.get(label);
    return list[turn % list.length];
  });
  turn += 1;
  return selection;
}

// onPick(digit); show(digits) replaces the buttons; mark(digit) highlights one of them
export function createThumbs({ label, onPick }) {
  const element = h("div", { class: "thumbs", role: "group", "aria-label": label });
  let buttons = [];

  function show(digits) {
    buttons = digits.map((digit) => {
      const image = createImage({ label: "", resolution: 84 });
      image.element.setAttribute("aria-hidden", "true");
      image.draw(ink(digit.image));
      return {
        digit,
        element: h("button", {
          type: "button", "aria-label": t("Example of {digit}", { digit: digit.label }), "aria-pressed": "false", onclick: () => onPick(digit),
        }, image.element),
      };
    });
    element.replaceChildren(...buttons.map((entry) => entry.element));
  }

  function mark(digit) {
    for (const entry of buttons) entry.element.setAttribute("aria-pressed", String(entry.digit === digit));
  }

  return { element, show, mark };
}

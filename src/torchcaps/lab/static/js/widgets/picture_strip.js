// A row of small pictures on one canvas; a click chooses one of them.

import { h } from "../core/dom.js";
import { color, css, onTheme } from "../core/palette.js";
import { ink, paint } from "./canvas_image.js";

const SIDE = 56; // canvas pixels of a picture

// The picture in the middle is framed. onPick(index of the picture); titleOf(index) is shown under the pointer.
export function createPictureStrip({ label, count, onPick, titleOf }) {
  const element = h("canvas", { class: "picture-strip", width: count * SIDE, height: SIDE, role: "img", "aria-label": label });
  const context = element.getContext("2d");
  let current = null;

  function draw(images) {
    current = images;
    images.forEach((image, index) => paint(context, ink(image), [index * SIDE, 0, SIDE, SIDE]));
    context.strokeStyle = css(color("accent"));
    context.lineWidth = 2;
    context.strokeRect(((count - 1) / 2) * SIDE + 1, 1, SIDE - 2, SIDE - 2);
  }

  function indexAt(event) {
    const box = element.getBoundingClientRect();
    return Math.max(0, Math.min(count - 1, Math.floor(((event.clientX - box.left) / box.width) * count)));
  }

  element.addEventListener("click", (event) => onPick(indexAt(event)));
  element.addEventListener("pointermove", (event) => { element.title = titleOf(indexAt(event)); });
  onTheme(() => current && draw(current));
  return { element, draw };
}

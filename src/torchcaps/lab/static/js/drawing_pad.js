// Paper to draw on with mouse, pen or finger. Shows either an example or the strokes made here.

import { ink, paint } from "./canvas_image.js";
import { css, color, onTheme } from "./palette.js";
import { h } from "./dom.js";
import { rasterize, trace } from "./centering.js";

const RESOLUTION = 560;
const WIDTH = 0.085; // of the pad
const CLOSEST = 0.003; // of the pad: points nearer to the last one tell nothing new

function apart([x, y], [u, v]) {
  return Math.hypot(x - u, y - v);
}

// onChange(pixels or null when the paper is empty)
export function createPad({ label, onChange }) {
  const element = h("canvas", { class: "pad", width: RESOLUTION, height: RESOLUTION, tabindex: 0, role: "img", "aria-label": label });
  const context = element.getContext("2d");
  let strokes = [];
  let example = null;
  let history = []; // what undo goes back to: { strokes, example }
  let pointer = null;
  let planned = false;

  function place(event) {
    const box = element.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  function remember() {
    history.push({ strokes: strokes.map((stroke) => [...stroke]), example });
  }

  element.addEventListener("pointerdown", (event) => {
    if (pointer !== null || event.button > 0) return;
    pointer = event.pointerId;
    element.setPointerCapture(pointer);
    remember();
    example = null; // the first stroke takes fresh paper
    strokes.push([place(event)]);
    changed();
  });

  element.addEventListener("pointermove", (event) => {
    if (event.pointerId !== pointer) return;
    const seen = event.getCoalescedEvents?.() ?? [];
    const stroke = strokes.at(-1);
    for (const point of (seen.length ? seen : [event]).map(place)) {
      if (apart(point, stroke.at(-1)) > CLOSEST) stroke.push(point);
    }
    changed();
  });

  for (const end of ["pointerup", "pointercancel"]) {
    element.addEventListener(end, (event) => {
      if (event.pointerId === pointer) pointer = null;
    });
  }

  element.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z") undo();
    else if (event.key === "Delete" || event.key === "Backspace") clear();
    else return;
    event.preventDefault();
  });

  // Once per frame is as often as anybody can see.
  function changed() {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      tell();
    });
  }

  function tell() {
    redraw();
    onChange(example ?? rasterize(strokes));
  }

  function redraw() {
    const side = element.width;
    if (example) {
      paint(context, ink(example), [0, 0, side, side]);
      return;
    }
    context.fillStyle = css(color("paper"));
    context.fillRect(0, 0, side, side);
    context.strokeStyle = css(color("ink"));
    context.lineWidth = WIDTH * side;
    context.lineCap = context.lineJoin = "round";
    for (const stroke of strokes) trace(context, stroke.map(([x, y]) => [x * side, y * side]));
  }

  // What changes the paper also ends the stroke under way: its points have nowhere left to go.
  function undo() {
    pointer = null;
    if (!history.length) return;
    ({ strokes, example } = history.pop());
    changed();
  }

  function clear() {
    pointer = null;
    if (!strokes.length && !example) return;
    remember();
    strokes = [];
    example = null;
    changed();
  }

  function load(pixels) {
    pointer = null;
    if (strokes.length || (example && example !== pixels)) remember();
    strokes = [];
    example = pixels;
    tell();
  }

  onTheme(redraw);
  redraw();
  return { element, undo, clear, load };
}

// A canvas to draw on with mouse, pen or finger. It shows either an example or the strokes.

import { ink, paint } from "./canvas_image.js";
import { css, color, onTheme } from "../core/palette.js";
import { h } from "../core/dom.js";
import { rasterize, trace } from "./rasterize.js";

const RESOLUTION = 560;
const STROKE_WIDTH = 0.085; // fraction of the pad
const MIN_DISTANCE = 0.003; // fraction of the pad: points closer to the last one are skipped

function distance([x, y], [u, v]) {
  return Math.hypot(x - u, y - v);
}

// onChange(pixels, or null if the pad is empty)
export function createPad({ label, onChange }) {
  const element = h("canvas", {
    class: "pad", width: RESOLUTION, height: RESOLUTION, tabindex: 0, role: "img", "aria-label": label,
  });
  const context = element.getContext("2d");
  let strokes = [];
  let example = null;
  const undoStack = []; // { strokes, example } before each change
  let pointer = null;
  let scheduled = false;

  function place(event) {
    const box = element.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  function saveForUndo() {
    undoStack.push({ strokes: strokes.map((stroke) => [...stroke]), example });
  }

  element.addEventListener("pointerdown", (event) => {
    if (pointer !== null || event.button > 0) return;
    pointer = event.pointerId;
    element.setPointerCapture(pointer);
    saveForUndo();
    example = null; // the first stroke replaces the example
    strokes.push([place(event)]);
    scheduleUpdate();
  });

  element.addEventListener("pointermove", (event) => {
    if (event.pointerId !== pointer) return;
    const events = event.getCoalescedEvents?.() ?? [];
    const stroke = strokes.at(-1);
    for (const point of (events.length ? events : [event]).map(place)) {
      if (distance(point, stroke.at(-1)) > MIN_DISTANCE) stroke.push(point);
    }
    scheduleUpdate();
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

  // At most once per frame.
  function scheduleUpdate() {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      update();
    });
  }

  function update() {
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
    context.lineWidth = STROKE_WIDTH * side;
    context.lineCap = context.lineJoin = "round";
    for (const stroke of strokes) trace(context, stroke.map(([x, y]) => [x * side, y * side]));
  }

  // Undo, clear and load also end the current stroke, which no longer exists.
  function undo() {
    pointer = null;
    if (!undoStack.length) return;
    ({ strokes, example } = undoStack.pop());
    scheduleUpdate();
  }

  function clear() {
    pointer = null;
    if (!strokes.length && !example) return;
    saveForUndo();
    strokes = [];
    example = null;
    scheduleUpdate();
  }

  function load(pixels) {
    pointer = null;
    if (strokes.length || (example && example !== pixels)) saveForUndo();
    strokes = [];
    example = pixels;
    update();
  }

  // What save returned, for example before a reload.
  function restore(saved) {
    strokes = saved.strokes ?? [];
    example = saved.example ?? null;
    update();
  }

  onTheme(redraw);
  redraw();
  return { element, undo, clear, load, restore, save: () => ({ strokes, example }) };
}

// A board with objects that can be dragged, turned and scaled, and what was found drawn over them.

import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { compose, matrix, pose } from "../core/similarity.js";

const [MIN_SCALE, MAX_SCALE] = [0.2, 0.9];
const EDGE = 0.93; // the knob stays on the board
const REACH = 1.16; // radius of the ring around a selected object, in units of its scale
const KEYS = {
  ArrowLeft: { x: -0.04 }, ArrowRight: { x: 0.04 }, ArrowUp: { y: 0.04 }, ArrowDown: { y: -0.04 },
  "[": { angle: 10 }, "]": { angle: -10 }, "+": { scale: 0.03 }, "-": { scale: -0.03 },
};

function limit(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

// objects: [{ id, name, x, y, angle, scale, parts: [{ kind, pose }] }], changed in place
// art: how parts are drawn, see shape_art.js
// onChange() after every change, onSelect(object or null), onRemove(object)
export function createBoard({ label, art, onChange, onSelect, onRemove }) {
  const scene = svg("g", {});
  const found = svg("g", { class: "found" });
  const knob = svg("circle", { class: "knob", r: 0.05 });
  const ring = svg("circle", { class: "ring-line" });
  const handle = svg("g", { class: "turn", hidden: true }, ring, knob);
  const flipped = svg("g", { transform: "scale(1 -1)" }, scene, found, handle);
  const labels = svg("g", { class: "labels" });
  const element = svg("svg", { viewBox: "-1 -1 2 2", class: "scene", role: "group", "aria-label": label },
    svg("rect", { x: -1, y: -1, width: 2, height: 2, class: "night" }), flipped, labels);
  let objects = [];
  let selected = null;
  let drag = null;
  const drawn = new Map(); // object -> element
  const shown = new WeakMap(); // element -> the poses of the parts that are drawn in it

  // A drag keeps the box that it began with: to ask for it at every move lays out the page once more.
  function place(event, box = element.getBoundingClientRect()) {
    return [((event.clientX - box.left) / box.width) * 2 - 1, 1 - ((event.clientY - box.top) / box.height) * 2];
  }

  function redraw() {
    for (const object of objects) {
      if (!drawn.has(object)) drawn.set(object, createObject(object));
      const group = drawn.get(object);
      group.setAttribute("transform", matrix(pose(object)));
      const before = shown.get(group);
      if (before && object.parts.every((part, index) => part.pose === before[index])) continue; // only the object moved
      shown.set(group, object.parts.map((part) => part.pose));
      group.replaceChildren(...object.parts.map((part) => art.solid(part.kind, part.pose)));
    }
    for (const [object, group] of drawn) {
      if (!objects.includes(object)) {
        group.remove();
        drawn.delete(object);
      }
    }
    objects.forEach((object, index) => {
      if (scene.children[index] !== drawn.get(object)) scene.insertBefore(drawn.get(object), scene.children[index] ?? null);
    });
    drawHandle();
  }

  function createObject(object) {
    const keys = t("{name}: arrow keys move it, [ and ] turn it, + and − scale it, Delete removes it", { name: object.name });
    const group = svg("g", { class: "object", tabindex: 0, role: "button", "aria-label": keys });
    group.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      const [x, y] = place(event);
      begin(event, { object, dx: object.x - x, dy: object.y - y });
    });
    group.addEventListener("focus", () => select(object));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Delete" || event.key === "Backspace") onRemove(object);
      else if (event.key in KEYS) {
        const step = KEYS[event.key];
        move(object, object.x + (step.x ?? 0), object.y + (step.y ?? 0));
        object.angle = wrap(object.angle + (step.angle ?? 0));
        object.scale = limit(object.scale + (step.scale ?? 0), MIN_SCALE, MAX_SCALE);
        changed();
      } else return;
      event.preventDefault();
    });
    return group;
  }

  function drawHandle() {
    handle.toggleAttribute("hidden", !selected);
    if (!selected) return;
    const { x, y, scale, angle } = selected;
    const up = ((angle + 90) * Math.PI) / 180;
    ring.setAttribute("cx", x);
    ring.setAttribute("cy", y);
    ring.setAttribute("r", scale * REACH);
    knob.setAttribute("cx", limit(x + Math.cos(up) * scale * REACH, -EDGE, EDGE));
    knob.setAttribute("cy", limit(y + Math.sin(up) * scale * REACH, -EDGE, EDGE));
  }

  function begin(event, next) {
    element.setPointerCapture(event.pointerId);
    drag = { ...next, box: element.getBoundingClientRect() };
    document.documentElement.classList.add("dragging");
    select(next.object);
  }

  function move(object, x, y) {
    object.x = limit(x, -1, 1);
    object.y = limit(y, -1, 1);
  }

  function changed() {
    redraw();
    onChange();
  }

  function select(object) {
    if (selected === object) return;
    selected = object;
    for (const [each, group] of drawn) group.classList.toggle("selected", each === object);
    drawHandle();
    onSelect(object);
  }

  knob.addEventListener("pointerdown", (event) => {
    if (event.button > 0 || !selected) return;
    event.stopPropagation();
    const { angle, scale } = selected;
    begin(event, { object: selected, turn: true, angle, scale, start: polar(selected, place(event)) });
  });
  element.addEventListener("pointerdown", (event) => {
    if (event.target.classList.contains("night")) select(null);
  });
  element.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [x, y] = place(event, drag.box);
    if (drag.turn) {
      // Relative to where the knob was taken, which may be at the edge of the board and not on the ring.
      const now = polar(drag.object, [x, y]);
      drag.object.angle = wrap(drag.angle + now.angle - drag.start.angle);
      drag.object.scale = limit((drag.scale * now.distance) / drag.start.distance, MIN_SCALE, MAX_SCALE);
    } else move(drag.object, x + drag.dx, y + drag.dy);
    changed();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    element.addEventListener(end, () => {
      drag = null;
      document.documentElement.classList.remove("dragging");
    });
  }

  // items: [{ element, at: [x, y], text, kind }]: outlines in the coordinates of the board, and texts beside them
  function overlay(items, texts) {
    found.replaceChildren(...items);
    labels.replaceChildren(...texts.map(({ at: [x, y], text }) => svg("text", {
      x: limit(x, -0.8, 0.8), y: limit(-y, -0.9, 0.97), "text-anchor": "middle",
    }, text)));
  }

  return {
    element: h("div", { class: "board" }, element),
    place,
    overlay,
    redraw,
    select,
    get selected() {
      return selected;
    },
    load(next) {
      objects = next;
      if (!objects.includes(selected)) select(null);
      redraw();
    },
  };
}

function polar(object, [x, y]) {
  const [dx, dy] = [x - object.x, y - object.y];
  return { angle: (Math.atan2(dy, dx) * 180) / Math.PI, distance: Math.max(0.02, Math.hypot(dx, dy)) };
}

function wrap(angle) {
  return Math.round((((angle + 180) % 360) + 360) % 360 - 180);
}

// The parts of objects in the coordinates of the board.
export function partsOf(objects) {
  return objects.flatMap((object) => object.parts.map((part) => ({ kind: part.kind, pose: compose(pose(object), part.pose) })));
}

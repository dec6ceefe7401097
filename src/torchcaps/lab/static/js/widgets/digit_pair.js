// A 36 × 36 canvas with two digits, moved by dragging or with the arrow keys.

import { layers, paint } from "./canvas_image.js";
import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { onTheme } from "../core/palette.js";

const SIZE = 36;
const DIGIT = 28;
const MAX_OFFSET = SIZE - DIGIT;
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

// onChange(image, labels)
export function createDigitPair(inks, onChange) {
  const canvas = h("canvas", {
    class: "picture grab", width: 576, height: 576, role: "img", "aria-label": t("Two digits; drag to move one"),
  });
  const context = canvas.getContext("2d");
  const items = [{ digit: null, x: 1, y: 2 }, { digit: null, x: 7, y: 6 }];
  const handles = items.map((_, which) => h("button", {
    type: "button", class: "handle",
    "aria-label": which ? t("Move the second digit with the arrow keys") : t("Move the first digit with the arrow keys"),
    onkeydown: (event) => {
      if (!(event.key in KEYS)) return;
      event.preventDefault();
      const [dx, dy] = KEYS[event.key];
      move(which, items[which].x + dx, items[which].y + dy);
    },
  }, which ? t("Second digit") : t("First digit"), h("span", {}, "← ↑ ↓ →")));
  let drag = null;

  function ready() {
    return items.every((item) => item.digit);
  }

  function value(item, x, y) {
    return item.digit.image[y - item.y]?.[x - item.x] ?? 0;
  }

  function onCanvas(item) {
    return Array.from({ length: SIZE }, (_row, y) => Array.from({ length: SIZE }, (_column, x) => value(item, x, y)));
  }

  function redraw() {
    if (!ready()) return;
    const painter = layers(items.map((item, which) => [onCanvas(item), inks[which]]));
    paint(context, painter, [0, 0, canvas.width, canvas.height]);
  }

  function changed() {
    if (!ready()) return;
    redraw();
    const [one, two] = items.map(onCanvas);
    const image = one.map((row, y) => row.map((v, x) => Number(Math.min(1, v + two[y][x]).toFixed(3))));
    onChange(image, items.map((item) => item.digit.label));
  }

  function move(which, x, y) {
    const limit = (at) => Math.max(0, Math.min(MAX_OFFSET, Math.round(at)));
    const [nx, ny] = [limit(x), limit(y)];
    if (nx === items[which].x && ny === items[which].y) return;
    Object.assign(items[which], { x: nx, y: ny });
    changed();
  }

  function place(event) {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * SIZE, ((event.clientY - box.top) / box.height) * SIZE];
  }

  // The digit whose ink is closest to the pointer.
  function nearest(px, py) {
    const distance = (item) => {
      let smallest = Infinity;
      onCanvas(item).forEach((row, y) => row.forEach((v, x) => {
        if (v > 0.3) smallest = Math.min(smallest, (x + 0.5 - px) ** 2 + (y + 0.5 - py) ** 2);
      }));
      return smallest;
    };
    return distance(items[0]) <= distance(items[1]) ? 0 : 1;
  }

  canvas.addEventListener("pointerdown", (event) => {
    if (!ready() || event.button > 0) return;
    canvas.setPointerCapture(event.pointerId);
    const [px, py] = place(event);
    const which = nearest(px, py);
    drag = { which, dx: items[which].x - px, dy: items[which].y - py };
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [px, py] = place(event);
    move(drag.which, px + drag.dx, py + drag.dy);
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { drag = null; });

  onTheme(redraw);
  return {
    element: canvas,
    handles,
    get digits() {
      return items.map((item) => item.digit);
    },
    // x and y of the first and of the second digit
    get places() {
      return items.flatMap(({ x, y }) => [x, y]);
    },
    set(which, digit) {
      items[which].digit = digit;
      changed();
    },
    setBoth(digits) {
      digits.forEach((digit, which) => { items[which].digit = digit; });
      changed();
    },
    // Where the next digits stand; anything that is no place is left out.
    place(places) {
      items.forEach((item, which) => {
        const [x, y] = places.slice(2 * which, 2 * which + 2);
        if ([x, y].every((at) => at >= 0 && at <= MAX_OFFSET)) Object.assign(item, { x: Math.round(x), y: Math.round(y) });
      });
    },
    // The places at which the digits share the least ink.
    separate() {
      if (!ready()) return;
      let least = Infinity;
      for (let dx = -MAX_OFFSET; dx <= MAX_OFFSET; dx += 1) {
        for (let dy = -MAX_OFFSET; dy <= MAX_OFFSET; dy += 1) {
          const shared = sharedInk(items[0].digit.image, items[1].digit.image, dx, dy);
          if (shared >= least) continue;
          least = shared;
          Object.assign(items[0], { x: Math.max(0, -dx), y: Math.max(0, -dy) });
          Object.assign(items[1], { x: Math.max(0, dx), y: Math.max(0, dy) });
        }
      }
      changed();
    },
  };
}

// How much ink two images share if the second is moved by (dx, dy).
function sharedInk(one, two, dx, dy) {
  return one.reduce((sum, row, y) => sum + row.reduce((part, value, x) =>
    part + Math.min(value, two[y - dy]?.[x - dx] ?? 0), 0), 0);
}

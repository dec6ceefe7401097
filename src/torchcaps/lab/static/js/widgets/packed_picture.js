// Images that the server sends as bytes in base64: gray, color, or a stereo pair side by side.

import { h } from "../core/dom.js";
import { color, mix, onTheme } from "../core/palette.js";
import { paint } from "./canvas_image.js";

// { channels, height, width, at(channel, x, y) -> 0..1 }
export function unpack({ channels, height, width, pixels }) {
  const bytes = atob(pixels);
  return { channels, height, width, at: (channel, x, y) => bytes.charCodeAt((channel * height + y) * width + x) / 255 };
}

// Rows of numbers from 0 to 1 as a gray image.
export function packGray(rows) {
  const bytes = rows.flat().map((value) => String.fromCharCode(Math.round(value * 255)));
  return { channels: 1, height: rows.length, width: rows[0].length, pixels: btoa(bytes.join("")) };
}

// As a photograph: 0 is black in both themes.
export function photo(packed) {
  const image = unpack(packed);
  const { width, height, channels } = image;
  if (channels === 2) return () => ({ width: 2 * width, height, at: (x, y) => Array(3).fill(255 * image.at(Math.floor(x / width), x % width, y)) });
  const at = (x, y) => [0, 1, 2].map((channel) => 255 * image.at(Math.min(channel, channels - 1), x, y));
  return () => ({ width, height, at });
}

// A gray image as ink on paper: 0 is paper, as in the other views.
export function inked(packed) {
  const { width, height, at } = unpack(packed);
  return () => {
    const [paper, full] = [color("paper"), color("ink")];
    return { width, height, at: (x, y) => mix(paper, full, at(0, x, y)) };
  };
}

// What changed between two images, in one color where it became brighter and in another where darker; `full` is
// the change with full color. Of a color image, the mean over the channels.
export function change(before, after, full) {
  const [old, now] = [unpack(before), unpack(after)];
  const { width, height, channels } = old;
  const stereo = channels === 2;
  const difference = (channel, x, y) => now.at(channel, x, y) - old.at(channel, x, y);
  return () => {
    const [paper, plus, minus] = [color("paper"), color("more"), color("less")];
    return {
      width: stereo ? 2 * width : width,
      height,
      at: (x, y) => {
        const all = Array.from({ length: channels }, (_, channel) => channel);
        const value = stereo ? difference(Math.floor(x / width), x % width, y)
          : all.reduce((sum, channel) => sum + difference(channel, x, y), 0) / channels;
        return mix(paper, value > 0 ? plus : minus, Math.min(1, Math.abs(value) / Math.max(full, 1e-6)));
      },
    };
  };
}

// A mask over an image: how much each place sends.
export function masked(packed, mask) {
  const base = photo(packed)();
  const cover = unpack(mask);
  return () => {
    const over = color("above");
    return { ...base, at: (x, y) => mix(base.at(x, y).map((value) => value * 0.7), over, 0.85 * cover.at(0, x, y)) };
  };
}

// A canvas of the image's own proportions; draw(painter, label) shows another one.
export function createPicture({ label, resolution = 280, smooth = false }) {
  const element = h("canvas", { class: "picture packed", role: "img", "aria-label": label });
  let current = null;

  function draw(painter, newLabel = null) {
    current = painter;
    if (newLabel) element.setAttribute("aria-label", newLabel);
    const { width, height } = painter();
    const scale = resolution / Math.max(width, height);
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    element.style.aspectRatio = `${width} / ${height}`;
    paint(element.getContext("2d"), painter, [0, 0, element.width, element.height], smooth);
  }

  onTheme(() => current && draw(current));
  return { element, draw };
}

// Images as buttons. items: [{ label, image }]; onPick(item); mark(item) highlights one. `own` is set apart from the others.
export function createPictureThumbs({ label, onPick }) {
  const element = h("div", { class: "thumbs pictures", role: "group", "aria-label": label });
  let buttons = [];
  return {
    element,
    show(items, painter = photo, own = null) {
      buttons = items.map((item) => {
        const picture = createPicture({ label: "", resolution: 84 });
        picture.element.setAttribute("aria-hidden", "true");
        picture.draw(painter(item.image));
        const button = h("button", {
          type: "button", class: item === own ? "own" : null, "aria-label": item.label, title: item.label, "aria-pressed": "false", onclick: () => onPick(item),
        }, picture.element);
        return { item, button };
      });
      element.replaceChildren(...buttons.map(({ button }) => button));
    },
    mark(chosen) {
      for (const { item, button } of buttons) button.setAttribute("aria-pressed", String(item === chosen));
    },
  };
}

// Grids of numbers as smoothly scaled pictures. A painter is a function () -> { width, height, at(x, y) -> rgb },
// called again when the theme changes.

import { color, mix, onTheme } from "./palette.js";
import { h } from "./dom.js";

const scratch = document.createElement("canvas");

// 0 is paper, 1 is ink: dark on light by day, light on dark by night.
export function ink(pixels, strength = 1) {
  return () => {
    const [paper, full] = [color("paper"), color("ink")];
    return grid(pixels, (x, y) => mix(paper, full, pixels[y][x] * strength));
  };
}

// A photograph: 0 black, 1 white in either theme.
export function gray(pixels) {
  return () => grid(pixels, (x, y) => Array(3).fill(255 * pixels[y][x]));
}

// -1 the second color, 0 paper, 1 the accent.
export function signed(pixels) {
  return () => {
    const [paper, plus, minus] = [color("paper"), color("accent"), color("second")];
    return grid(pixels, (x, y) => mix(paper, pixels[y][x] > 0 ? plus : minus, Math.min(1, Math.abs(pixels[y][x]))));
  };
}

// Several grids, each in its own color, laid over each other like inks: [[pixels, "accent"], …].
export function layers(list) {
  return () => {
    const paper = color("paper");
    const inks = list.map(([pixels, name]) => ({ pixels, rgb: color(name) }));
    return grid(list[0][0], (x, y) =>
      paper.map((value, c) => inks.reduce((sum, { pixels, rgb }) => sum + pixels[y][x] * (rgb[c] - value), value)));
  };
}

function grid(pixels, at) {
  return { width: pixels[0].length, height: pixels.length, at };
}

// Paints onto any 2-D context, filling the rectangle.
export function paint(context, painter, [left, top, width, height], smooth = true) {
  const picture = painter();
  scratch.width = picture.width;
  scratch.height = picture.height;
  const small = scratch.getContext("2d", { willReadFrequently: true });
  const data = small.createImageData(picture.width, picture.height);
  for (let y = 0, i = 0; y < picture.height; y += 1) {
    for (let x = 0; x < picture.width; x += 1, i += 4) {
      const rgb = picture.at(x, y);
      data.data[i] = rgb[0];
      data.data[i + 1] = rgb[1];
      data.data[i + 2] = rgb[2];
      data.data[i + 3] = 255;
    }
  }
  small.putImageData(data, 0, 0);
  context.imageSmoothingEnabled = smooth;
  context.imageSmoothingQuality = "high";
  context.drawImage(scratch, left, top, width, height);
}

// A canvas that remembers what it shows. `label` is read by screen readers; draw(painter, label) may change it.
export function createImage({ label, resolution = 336, smooth = true, kind = "" }) {
  const element = h("canvas", { class: `picture ${kind}`.trim(), width: resolution, height: resolution, role: "img", "aria-label": label });
  const context = element.getContext("2d");
  let shown = null;

  function draw(painter, newLabel = null) {
    shown = painter;
    if (newLabel) element.setAttribute("aria-label", newLabel);
    paint(context, painter, [0, 0, element.width, element.height], smooth);
  }

  onTheme(() => shown && draw(shown));
  return { element, draw };
}

// A picture with words under it.
export function figure(image, caption) {
  const words = h("figcaption", {}, caption);
  const element = h("figure", {}, image.element, words);
  return { element, draw: image.draw, caption: (text) => { words.textContent = text; } };
}

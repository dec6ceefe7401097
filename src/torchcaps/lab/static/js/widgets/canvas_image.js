// Draws grids of numbers as scaled images. A painter is a function () -> { width, height, at(x, y) -> rgb };
// it is called again when the theme changes. In place of at, fill(data) may write the bytes r, g, b, a of all pixels.

import { color, mix, onTheme } from "../core/palette.js";
import { h } from "../core/dom.js";

const scratch = document.createElement("canvas");

// 0 is paper, 1 is ink: dark on light, or light on dark in the dark theme.
export function ink(pixels) {
  return () => {
    const [paper, full] = [color("paper"), color("ink")];
    return grid(pixels, (x, y) => mix(paper, full, pixels[y][x]));
  };
}

// A photograph: 0 is black and 1 is white in both themes.
export function gray(pixels) {
  return () => grid(pixels, (x, y) => Array(3).fill(255 * pixels[y][x]));
}

// The same for a square of bytes in base64, row by row: without an array for each pixel, for a picture that follows a drag.
export function grayBytes(text, size) {
  const bytes = atob(text);
  const fill = (data) => {
    for (let pixel = 0, i = 0; pixel < bytes.length; pixel += 1, i += 4) {
      const value = bytes.charCodeAt(pixel);
      data[i] = value;
      data[i + 1] = value;
      data[i + 2] = value;
      data[i + 3] = 255;
    }
  };
  return () => ({ width: size, height: size, fill });
}

// -1 is the color for less, 0 is paper, 1 is the color for more.
export function signed(pixels) {
  return () => {
    const [paper, plus, minus] = [color("paper"), color("more"), color("less")];
    return grid(pixels, (x, y) => mix(paper, pixels[y][x] > 0 ? plus : minus, Math.min(1, Math.abs(pixels[y][x]))));
  };
}

// Several overlaid grids, each in its own color: [[pixels, "first"], …].
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

// How the chosen primary capsule is marked: lines over each other, [color, width]. Orange marks the answer, so this
// is a dark frame, double to be told from what is drawn, with paper around it.
export const DOUBLE_FRAME = [["paper", 13], ["ink", 9], ["paper", 3]];

function fillEach({ width, height, at }, data) {
  for (let y = 0, i = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1, i += 4) {
      const rgb = at(x, y);
      data[i] = rgb[0];
      data[i + 1] = rgb[1];
      data[i + 2] = rgb[2];
      data[i + 3] = 255;
    }
  }
}

// Fills a rectangle of a 2-D context.
export function paint(context, painter, [left, top, width, height], smooth = true) {
  const source = painter();
  scratch.width = source.width;
  scratch.height = source.height;
  const small = scratch.getContext("2d", { willReadFrequently: true });
  const data = small.createImageData(source.width, source.height);
  if (source.fill) source.fill(data.data);
  else fillEach(source, data.data);
  small.putImageData(data, 0, 0);
  context.imageSmoothingEnabled = smooth;
  context.imageSmoothingQuality = "high";
  context.drawImage(scratch, left, top, width, height);
}

// A canvas for painters. `label` is for screen readers; draw(painter, label) may change it.
export function createImage({ label, resolution = 336, smooth = true, kind = "" }) {
  const element = h("canvas", {
    class: `picture ${kind}`.trim(), width: resolution, height: resolution, role: "img", "aria-label": label,
  });
  const context = element.getContext("2d");
  let current = null;

  function draw(painter, newLabel = null) {
    current = painter;
    if (newLabel) element.setAttribute("aria-label", newLabel);
    paint(context, painter, [0, 0, element.width, element.height], smooth);
  }

  onTheme(() => current && draw(current));
  return { element, draw };
}

// An image with a caption.
export function figure(image, caption) {
  const text = h("figcaption", {}, caption);
  const element = h("figure", {}, image.element, text);
  return { element, draw: image.draw, caption: (next) => { text.textContent = next; } };
}

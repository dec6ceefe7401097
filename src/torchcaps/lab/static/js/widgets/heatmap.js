// A grid of values over a faint image: the accent color for positive values, the second color for negative ones.

import { color, mix } from "../core/palette.js";
import { createImage } from "./canvas_image.js";

// Linear interpolation between cell centers, which lie at `centers.first`, `centers.first + centers.step`, … in pixels;
// without `centers` the cells fill the image.
function sampler(cells, size, centers) {
  const [rows, columns] = [cells.length, cells[0].length];
  const step = centers?.step ?? size / columns;
  const first = centers?.first ?? step / 2 - 0.5;
  const cell = (row, column) => (row < 0 || column < 0 || row >= rows || column >= columns ? 0 : cells[row][column]);
  return (x, y) => {
    const [u, v] = [(x - first) / step, (y - first) / step];
    const inside = centers ? [u, v] : [clamp(u, columns), clamp(v, rows)];
    const [left, top] = inside.map(Math.floor);
    const [right, down] = [inside[0] - left, inside[1] - top];
    return (1 - down) * ((1 - right) * cell(top, left) + right * cell(top, left + 1))
      + down * ((1 - right) * cell(top + 1, left) + right * cell(top + 1, left + 1));
  };
}

function clamp(value, count) {
  return Math.max(0, Math.min(count - 1, value));
}

// cells: a grid of numbers from -1 to 1
function heat(pixels, cells, centers) {
  return () => {
    const [paper, full, more, less] = ["paper", "ink", "accent", "second"].map(color);
    const at = sampler(cells, pixels.length, centers);
    return {
      width: pixels[0].length,
      height: pixels.length,
      at: (x, y) => {
        const value = at(x, y);
        return mix(mix(paper, full, 0.35 * pixels[y][x]), value > 0 ? more : less, Math.min(1, Math.abs(value)) * 0.9);
      },
    };
  };
}

export function createHeatmap(label) {
  const image = createImage({ label, resolution: 168 });
  return {
    element: image.element,
    draw: (pixels, cells, centers) => image.draw(heat(pixels, cells, centers)),
  };
}

// A grid of values from -1 to 1, one square for each position, over the faint pixels that the positions are centered on.

import { color, mix } from "../core/palette.js";
import { createImage } from "./canvas_image.js";

const CELL = 28; // pixels of the canvas for each position
const GAP = 2;

// Each square covers the pixels halfway to its neighbors: cells are as far apart as the centers of their fields.
function heat(pixels, cells, { first, step }, colors) {
  return () => {
    const [paper, full, more, less = more] = ["paper", "ink", ...colors].map(color);
    const side = cells.length * CELL;
    const corner = first - step / 2 + 0.5; // pixels are squares around their coordinates
    return {
      width: side,
      height: side,
      at: (x, y) => {
        const pixel = pixels[Math.floor(corner + (y / CELL) * step)]?.[Math.floor(corner + (x / CELL) * step)] ?? 0;
        const base = mix(paper, full, 0.3 * pixel);
        if (x % CELL < GAP || y % CELL < GAP) return base;
        const value = cells[Math.floor(y / CELL)][Math.floor(x / CELL)];
        return mix(base, value > 0 ? more : less, Math.min(1, Math.abs(value)));
      },
    };
  };
}

// onHover(row, column) is called while the pointer is over a square.
export function createHeatmap(label, count, onHover = () => {}) {
  const image = createImage({ label, resolution: count * CELL, smooth: false });
  image.element.addEventListener("pointermove", (event) => {
    const box = image.element.getBoundingClientRect();
    const at = (share) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    onHover(at((event.clientY - box.top) / box.height), at((event.clientX - box.left) / box.width));
  });
  return {
    element: image.element,
    // colors: of values above and below 0; one color if there are none below
    draw: (pixels, cells, centers, colors = ["above"]) => image.draw(heat(pixels, cells, centers, colors)),
  };
}

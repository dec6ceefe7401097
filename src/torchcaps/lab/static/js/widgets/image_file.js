// Turns an image file into a digit like those of MNIST: light ink on dark, in a box of 20 × 20 pixels, with its center
// of mass in the middle of 28 × 28 pixels.

import { t } from "../core/i18n.js";
import { centered, INK_BOX, SIZE } from "./rasterize.js";

const LARGEST = 512; // pixels along the longer side that are looked at
const FAINT = 0.25; // share of the strongest ink: weaker is background, for example the noise of a JPEG
const MIN_CONTRAST = 0.08;

export const IMAGE_TYPES = "image/png,image/jpeg,image/webp,image/gif";

// The first image of a paste or a drop, or null.
export function imageOf(transfer) {
  return [...(transfer?.files ?? [])].find((file) => file.type.startsWith("image/")) ?? null;
}

// 28 rows of 28 numbers; throws an Error with a sentence for the visitor.
export async function readImage(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(t("This file is not an image that the browser can read. Use PNG, JPEG, WebP or GIF."));
  }
  const ink = inkOf(bitmap);
  const box = bounds(ink);
  if (!box) throw new Error(t("There is nothing to see on this image: it has one color only."));
  return centered(shrink(ink, box));
}

// Rows of numbers from 0, the background, to 1, the strongest ink.
function inkOf(bitmap) {
  const scale = Math.min(1, LARGEST / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale)));
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  const pixels = Array.from({ length: height }, (_row, y) => Array.from({ length: width }, (_column, x) => brightness(data, 4 * (y * width + x))));
  const background = median([...pixels[0], ...pixels.at(-1), ...pixels.map((row) => row[0]), ...pixels.map((row) => row.at(-1))]);
  const sign = background > 0.5 ? -1 : 1; // dark ink on light paper becomes light ink on dark
  const ink = pixels.map((row) => row.map((value) => Math.max(0, sign * (value - background))));
  const strongest = ink.reduce((most, row) => row.reduce((high, value) => Math.max(high, value), most), 0);
  if (strongest < MIN_CONTRAST) return ink.map((row) => row.map(() => 0));
  return ink.map((row) => row.map((value) => (value < FAINT * strongest ? 0 : value / strongest)));
}

// A pixel over white, because transparent images are mostly shown so.
function brightness(data, at) {
  const gray = (0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2]) / 255;
  const alpha = data[at + 3] / 255;
  return gray * alpha + 1 - alpha;
}

function median(values) {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

function bounds(ink) {
  let [left, right, top, bottom] = [Infinity, -1, Infinity, -1];
  ink.forEach((row, y) => row.forEach((value, x) => {
    if (value === 0) return;
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }));
  return right < 0 ? null : { left, top, width: right - left + 1, height: bottom - top + 1 };
}

// Each pixel is the mean of the area that it covers, so that thin lines are not lost.
function shrink(ink, { left, top, width, height }) {
  const step = Math.max(width, height) / INK_BOX;
  const [startX, startY] = [left + width / 2 - (SIZE / 2) * step, top + height / 2 - (SIZE / 2) * step];
  const image = Array.from({ length: SIZE }, (_row, y) => Array.from({ length: SIZE }, (_column, x) =>
    areaMean(ink, startX + x * step, startY + y * step, step)));
  const strongest = Math.max(...image.flat());
  return image.map((row) => row.map((value) => value / strongest));
}

function areaMean(ink, x0, y0, step) {
  const overlap = (at, from) => Math.max(0, Math.min(at + 1, from + step) - Math.max(at, from));
  let sum = 0;
  for (let y = Math.max(0, Math.floor(y0)); y < Math.min(ink.length, y0 + step); y += 1) {
    for (let x = Math.max(0, Math.floor(x0)); x < Math.min(ink[0].length, x0 + step); x += 1) {
      sum += ink[y][x] * overlap(x, x0) * overlap(y, y0);
    }
  }
  return sum / step ** 2;
}

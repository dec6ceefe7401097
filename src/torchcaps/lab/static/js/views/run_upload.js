// An image file as base64; a large one is scaled down, because the server accepts less than 1 MB.

import { t } from "../core/i18n.js";

const MAX_BYTES = 690_000;
const MAX_SIDE = 1024;

export async function readFile(file) {
  const content = file.size <= MAX_BYTES ? file : await smaller(file);
  const bytes = new Uint8Array(await content.arrayBuffer());
  let text = "";
  for (let start = 0; start < bytes.length; start += 8192) text += String.fromCharCode(...bytes.subarray(start, start + 8192));
  return btoa(text);
}

async function smaller(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(t("This file cannot be read as an image: PNG, JPEG and WebP can."));
  }
  const scale = Math.min(1, MAX_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.round(bitmap.width * scale), Math.round(bitmap.height * scale)];
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/jpeg", 0.92); });
}

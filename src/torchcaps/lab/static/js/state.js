// The image drawn in Draw, shared by Tweak, Votes and Attack, with what the network last said of it.

const listeners = new Set();
let image = null; // 28 rows of 28 numbers, 0 paper, 1 ink
let version = 0;
let reading = null; // the answer of api/draw for this image

export function currentImage() {
  return image;
}

export function imageVersion() {
  return version;
}

export function setImage(pixels) {
  image = pixels;
  version += 1;
  reading = null;
  for (const listener of listeners) listener(image);
}

export function onImage(listener) {
  listeners.add(listener);
}

export function currentReading() {
  return reading;
}

export function setReading(answer) {
  reading = answer;
}

// The image drawn in Draw, shared by Tweak, Votes and Attack, with what the network says of it.

const listeners = new Set();
let image = null; // 28 rows of 28 numbers, 0 paper, 1 ink
let version = 0;
let reading = null; // the answer of api/draw for this image
let missing = null; // or the sentence that says why there is none

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
  tell();
}

export function setReading(answer) {
  reading = answer;
  tell();
}

export function setMissing(sentence) {
  missing = sentence;
  tell();
}

function tell() {
  for (const listener of listeners) listener(reading, missing);
}

// listener(reading or null, sentence or null): now, and whenever the network has spoken.
export function onReading(listener) {
  listeners.add(listener);
  listener(reading, missing);
}

// The drawing, shared by all views that use it, and the network's response to it.

const listeners = new Set();
let image = null; // 28 rows of 28 numbers: 0 is paper, 1 is ink
let version = 0;
let recognition = null; // the response of api/draw for this image
let missing = null; // a message if the weights for it are missing

export function currentImage() {
  return image;
}

export function imageVersion() {
  return version;
}

export function setImage(pixels) {
  image = pixels;
  version += 1;
  recognition = null;
  notify();
}

export function setRecognition(response) {
  recognition = response;
  notify();
}

export function setMissing(message) {
  missing = message;
  notify();
}

function notify() {
  for (const listener of listeners) listener(recognition, missing);
}

// listener(response or null, message or null) is called now and after every change.
export function onRecognition(listener) {
  listeners.add(listener);
  listener(recognition, missing);
}

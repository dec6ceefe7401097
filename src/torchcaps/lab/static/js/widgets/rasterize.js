// Turns strokes into an image like those of MNIST: the digit is scaled to a box of 20 × 20 pixels, drawn with a
// soft brush of constant width, and placed with its center of mass in the middle of 28 × 28 pixels.

export const SIZE = 28;
export const INK_BOX = 20;
const BRUSH = 2.5; // pixels; strokes in MNIST are two to three pixels wide
const OVERSAMPLING = 6; // each pixel is the mean of 6 × 6 smaller ones
const MIN_EXTENT = 0.25; // fraction of the pad: a dot is not enlarged to fill the box
const MAX_SHIFT = 4; // pixels by which centering may move the digit

const canvas = document.createElement("canvas");
canvas.width = canvas.height = SIZE * OVERSAMPLING;

// strokes: lists of [x, y] as fractions of the pad
export function rasterize(strokes) {
  const points = strokes.flat();
  if (!points.length) return null;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of points) { // not Math.min(...xs): a long drawing has too many points for one call
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }
  const scale = (INK_BOX - BRUSH) / Math.max(right - left, bottom - top, MIN_EXTENT);
  const place = ([x, y]) => [SIZE / 2 + (x - (left + right) / 2) * scale, SIZE / 2 + (y - (top + bottom) / 2) * scale];
  return centered(blur(average(drawStrokes(strokes.map((stroke) => stroke.map(place))))));
}

function drawStrokes(strokes) {
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.setTransform(OVERSAMPLING, 0, 0, OVERSAMPLING, 0, 0);
  context.lineWidth = BRUSH;
  context.lineCap = context.lineJoin = "round";
  for (const stroke of strokes) trace(context, stroke);
  return context.getImageData(0, 0, canvas.width, canvas.height).data;
}

// A smooth line through the midpoints between the reported points; a single point is a dot.
export function trace(context, stroke) {
  context.beginPath();
  context.moveTo(...stroke[0]);
  if (stroke.length === 1) context.lineTo(stroke[0][0] + 0.01, stroke[0][1]);
  for (let i = 1; i < stroke.length - 1; i += 1) {
    const [x, y] = stroke[i];
    context.quadraticCurveTo(x, y, (x + stroke[i + 1][0]) / 2, (y + stroke[i + 1][1]) / 2);
  }
  context.lineTo(...stroke[stroke.length - 1]);
  context.stroke();
}

function average(data) {
  const image = Array.from({ length: SIZE }, () => new Array(SIZE).fill(0));
  const side = SIZE * OVERSAMPLING;
  for (let y = 0; y < side; y += 1) {
    for (let x = 0; x < side; x += 1) {
      const alpha = data[(y * side + x) * 4 + 3] / 255;
      image[Math.floor(y / OVERSAMPLING)][Math.floor(x / OVERSAMPLING)] += alpha / OVERSAMPLING ** 2;
    }
  }
  return image;
}

// A light blur, like that of MNIST from scaling down scanned digits.
function blur(image) {
  const at = (y, x) => image[y]?.[x] ?? 0;
  return image.map((row, y) => row.map((value, x) => {
    const neighbors = at(y - 1, x) + at(y + 1, x) + at(y, x - 1) + at(y, x + 1);
    return Math.min(1, 0.72 * value + 0.1 * neighbors);
  }));
}

// Moved so that the center of mass is in the middle.
export function centered(image) {
  let [mass, sumX, sumY] = [0, 0, 0];
  image.forEach((row, y) => row.forEach((value, x) => {
    mass += value;
    sumX += value * x;
    sumY += value * y;
  }));
  const limit = (shift) => Math.max(-MAX_SHIFT, Math.min(MAX_SHIFT, Math.round(shift)));
  const [dx, dy] = [limit(SIZE / 2 - sumX / mass), limit(SIZE / 2 - sumY / mass)];
  return image.map((row, y) => row.map((_, x) => Number((image[y - dy]?.[x - dx] ?? 0).toFixed(3))));
}

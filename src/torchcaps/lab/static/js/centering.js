// From strokes to an image like those of MNIST: the digit scaled into a box of 20 pixels, drawn with a soft brush
// of constant width, its center of mass in the middle of 28 × 28.

const SIZE = 28;
const BOX = 20;
const BRUSH = 2.5; // pixels; MNIST's strokes measure two to three
const FINE = 6; // each pixel is averaged from FINE × FINE finer ones
const SMALLEST = 0.25; // of the pad: a dot is not blown up to fill the box
const MAX_SHIFT = 4; // pixels the centering may move the digit

const fine = document.createElement("canvas");
fine.width = fine.height = SIZE * FINE;

// strokes: lists of [x, y] in 0..1 of the pad
export function rasterize(strokes) {
  const points = strokes.flat();
  if (!points.length) return null;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [x, y] of points) { // no spreading into Math.min: a long drawing has more points than a call takes arguments
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  }
  const scale = (BOX - BRUSH) / Math.max(right - left, bottom - top, SMALLEST);
  const place = ([x, y]) => [SIZE / 2 + (x - (left + right) / 2) * scale, SIZE / 2 + (y - (top + bottom) / 2) * scale];
  return centered(soften(average(brush(strokes.map((stroke) => stroke.map(place))))));
}

function brush(strokes) {
  const context = fine.getContext("2d", { willReadFrequently: true });
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, fine.width, fine.height);
  context.setTransform(FINE, 0, 0, FINE, 0, 0);
  context.lineWidth = BRUSH;
  context.lineCap = context.lineJoin = "round";
  for (const stroke of strokes) trace(context, stroke);
  return context.getImageData(0, 0, fine.width, fine.height).data;
}

// A smooth line through the midpoints of what the pointer reported; a single point is a dot.
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
  const side = SIZE * FINE;
  for (let y = 0; y < side; y += 1) {
    for (let x = 0; x < side; x += 1) {
      image[Math.floor(y / FINE)][Math.floor(x / FINE)] += data[(y * side + x) * 4 + 3] / (255 * FINE * FINE);
    }
  }
  return image;
}

// A light blur, as scaling scanned digits down has left on MNIST.
function soften(image) {
  const at = (y, x) => image[y]?.[x] ?? 0;
  return image.map((row, y) => row.map((value, x) => {
    const beside = at(y - 1, x) + at(y + 1, x) + at(y, x - 1) + at(y, x + 1);
    return Math.min(1, 0.72 * value + 0.1 * beside);
  }));
}

function centered(image) {
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

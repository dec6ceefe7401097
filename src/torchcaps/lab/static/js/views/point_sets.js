// Random point sets for clustering; the same seed gives the same points.

// Numbers from 0 to 1: mulberry32, a generator of 32 bits.
function generator(seed) {
  let state = (seed * 2654435761) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function normal(random) {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

function blob(random, count, [x, y], [long, short], degrees = 0) {
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  return Array.from({ length: count }, () => {
    const [u, v] = [normal(random) * long, normal(random) * short];
    return [x + cos * u - sin * v, y + sin * u + cos * v];
  });
}

function uniform(random, count) {
  return Array.from({ length: count }, () => [(random() - 0.5) * 2.7, (random() - 0.5) * 1.9]);
}

function visible(points) {
  return points
    .filter(([x, y]) => Math.abs(x) < 1.47 && Math.abs(y) < 1.02)
    .map((point) => point.map((value) => Number(value.toFixed(3))));
}

// name: generator of groups of points; there are as many clusters as groups
const SETS = {
  "Three blobs": (random) => [[-0.8, 0.35], [0.75, 0.5], [0.05, -0.5]].map((center) => blob(random, 40, center, [0.15, 0.15])),
  "Two cigars": (random) => [[-0.15, 0.3], [0.15, -0.3]].map((center) => blob(random, 60, center, [0.5, 0.06], 25)),
  "A cross": (random) => [38, -38].map((degrees) => blob(random, 60, [0, 0], [0.55, 0.05], degrees)),
  "Small in large": (random) => [blob(random, 80, [0, 0], [0.55, 0.42]), blob(random, 60, [0.15, 0.1], [0.04, 0.04])],
  "Agreement in noise": (random) => [uniform(random, 90), blob(random, 50, [0.55, -0.3], [0.04, 0.04])],
};

// Pairs of points that start in one place and end in one of two.
function pairs(random) {
  const at = (center) => blob(random, 1, center, [0.13, 0.05], 30)[0].map((value) => Number(value.toFixed(3)));
  return [0.55, -0.5].map((end) => Array.from({ length: 30 }, () => [at([-0.75, 0]), at([0.65, end])]).flat());
}

export const SET_NAMES = [...Object.keys(SETS), "Pairs"];
// What the view opens with: it takes several iterations until one capsule has found the votes that agree.
export const FIRST_SET = "Agreement in noise";

// kind: the covariance that the set is made for, if it is not the visitor's choice
export function makeSet(name, seed) {
  if (name === "Pairs") {
    const groups = pairs(generator(seed));
    return { clusters: groups.length, groups, points: groups.flat(), kind: "rows" };
  }
  const groups = SETS[name](generator(seed)).map(visible);
  return { clusters: groups.length, groups, points: groups.flat() };
}

// Points as text for an address: three characters for each coordinate, in thousandths.
const [DIGITS, BASE, ZERO] = [3, 36, 23000];

export function packPoints(points) {
  return points.flat().map((value) => Math.max(0, Math.min(BASE ** DIGITS - 1, Math.round(value * 1000) + ZERO)).toString(BASE).padStart(DIGITS, "0")).join("");
}

// The points of a text; none if it is damaged.
export function unpackPoints(text) {
  if (!text || text.length % (2 * DIGITS) || text.length > 500 * 2 * DIGITS || !/^[0-9a-z]+$/.test(text)) return [];
  const numbers = text.match(/.../g).map((digits) => (parseInt(digits, BASE) - ZERO) / 1000);
  return Array.from({ length: numbers.length / 2 }, (_, index) => numbers.slice(2 * index, 2 * index + 2));
}

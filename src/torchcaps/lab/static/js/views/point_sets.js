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

export const SET_NAMES = Object.keys(SETS);

export function makeSet(name, seed) {
  const groups = SETS[name](generator(seed)).map(visible);
  return { clusters: groups.length, groups, points: groups.flat() };
}

// Random point sets for clustering.

function normal() {
  return Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
}

function blob(count, [x, y], [long, short], degrees = 0) {
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  return Array.from({ length: count }, () => {
    const [u, v] = [normal() * long, normal() * short];
    return [x + cos * u - sin * v, y + sin * u + cos * v];
  });
}

function uniform(count) {
  return Array.from({ length: count }, () => [(Math.random() - 0.5) * 2.7, (Math.random() - 0.5) * 1.9]);
}

function visible(points) {
  return points
    .filter(([x, y]) => Math.abs(x) < 1.47 && Math.abs(y) < 1.02)
    .map((point) => point.map((value) => Number(value.toFixed(3))));
}

// name: [number of clusters, generator]
const SETS = {
  "Three blobs": [3, () => [[-0.8, 0.35], [0.75, 0.5], [0.05, -0.5]].flatMap((center) => blob(40, center, [0.15, 0.15]))],
  "Two cigars": [2, () => [...blob(60, [-0.15, 0.3], [0.6, 0.07], 25), ...blob(60, [0.15, -0.3], [0.6, 0.07], 25)]],
  "A cross": [2, () => [...blob(60, [0, 0], [0.6, 0.06], 38), ...blob(60, [0, 0], [0.6, 0.06], -38)]],
  "Small in large": [2, () => [...blob(90, [0, 0], [0.5, 0.4]), ...blob(50, [0.15, 0.1], [0.06, 0.06])]],
  "Agreement in noise": [3, () => [...blob(30, [0.55, -0.3], [0.05, 0.05]), ...uniform(90)]],
};

export const SET_NAMES = Object.keys(SETS);

export function makeSet(name) {
  const [clusters, generate] = SETS[name];
  return { clusters, points: visible(generate()) };
}

// Where the names of clusters stand in a plane: beside their ellipse, inside the plane, and over few points.

const [LETTER, LARGE_LETTER] = [9, 11.5]; // pixels: the width of a letter; the plane is scaled down on phones
const [LINE, GAP] = [20, 12]; // pixels: the height of a label, and its distance from the ellipse
const small = matchMedia("(max-width: 700px)");

// clusters: [{ text, at: [x, y], reach: [half width, half height] }]; dots: [[x, y], …]; returns [x, y] of each text,
// the middle of its lower edge.
export function placeLabels(clusters, dots, [width, height]) {
  const taken = [];
  return clusters.map(({ text, at: [x, y], reach: [wide, high] }) => {
    const half = (text.length * (small.matches ? LARGE_LETTER : LETTER)) / 2;
    const rows = [-high - GAP - LINE / 2, high + GAP + LINE / 2, -high - GAP - 1.5 * LINE, high + GAP + 1.5 * LINE];
    const places = [
      ...rows.flatMap((up) => [0, -wide / 2, wide / 2].map((side) => [side, up])),
      ...[0, -high, high].flatMap((up) => [-1, 1].map((side) => [side * (wide + GAP + half), up])),
    ].map(([side, up]) => ({
      x: limit(x + side, half + 4, width - half - 4), y: limit(y + up, LINE / 2 + 2, height - LINE / 2 - 4), half,
    }));
    const best = places.reduce((found, place) => (cost(place, dots, taken, [x, y]) < cost(found, dots, taken, [x, y]) ? place : found));
    while (taken.some((other) => overlaps(best, other)) && best.y < height) best.y += LINE / 4;
    taken.push(best);
    return [best.x, best.y + LINE / 4];
  });
}

function limit(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

// A label over a point is bad, over another label worse; of equally good places the nearest is taken.
function cost(place, dots, taken, [x, y]) {
  const covered = dots.filter(([left, top]) => Math.abs(left - place.x) < place.half + 3 && Math.abs(top - place.y) < LINE / 2 + 3);
  return covered.length + 100 * taken.filter((other) => overlaps(place, other)).length + Math.hypot(place.x - x, place.y - y) / 1000;
}

function overlaps(one, two) {
  return Math.abs(one.x - two.x) < one.half + two.half && Math.abs(one.y - two.y) < LINE;
}

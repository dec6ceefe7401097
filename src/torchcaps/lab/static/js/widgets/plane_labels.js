// Where the names of clusters stand in a plane: near their ellipse, inside the plane, on no outline, and over few points.

const [LETTER, LARGE_LETTER] = [9, 11.5]; // pixels: the width of a letter; the plane is scaled down on phones
const [LINE, STEP] = [22, 10]; // pixels: the height of a label, and between two places that are tried
const [FAR, ON_LINE, ON_LABEL] = [1 / 40, 3, 200]; // costs: of a pixel of distance, of a place of an outline, of another label
const small = matchMedia("(max-width: 700px)");

// clusters: [{ text, at: [x, y], reach: [half width, half height] }]; dots and outlines: [[x, y], …]; returns [x, y] of
// each text, the middle of its lower edge.
export function placeLabels(clusters, dots, outlines, [width, height]) {
  const taken = [];
  return clusters.map(({ text, at: [x, y], reach: [wide, high] }) => {
    const half = (text.length * (small.matches ? LARGE_LETTER : LETTER)) / 2;
    // Beyond the ellipse or inside it: only what is outside both counts as distance.
    const distance = (place) => Math.hypot(Math.max(0, Math.abs(place.x - x) - wide - half), Math.max(0, Math.abs(place.y - y) - high - LINE / 2))
      + Math.hypot(place.x - x, place.y - y) / 10;
    const cost = (place) => FAR * distance(place) + within(place, dots).length + ON_LINE * within(place, outlines).length
      + ON_LABEL * taken.filter((other) => overlaps(place, other)).length;
    let best = null;
    for (let top = LINE / 2 + 2; top <= height - LINE / 2 - 4; top += STEP) {
      for (let left = half + 4; left <= width - half - 4; left += STEP) {
        const place = { x: left, y: top, half };
        place.cost = cost(place);
        if (!best || place.cost < best.cost) best = place;
      }
    }
    taken.push(best);
    return [best.x, best.y + LINE / 4];
  });
}

function within(place, list) {
  return list.filter(([x, y]) => Math.abs(x - place.x) < place.half + 4 && Math.abs(y - place.y) < LINE / 2 + 4);
}

function overlaps(one, two) {
  return Math.abs(one.x - two.x) < one.half + two.half && Math.abs(one.y - two.y) < LINE;
}

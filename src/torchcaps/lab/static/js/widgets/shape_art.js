// The three parts as SVG, in their own coordinates with y up: the shape and the dark mark that shows which way up it is.

import { svg } from "../core/dom.js";
import { matrix } from "../core/similarity.js";

const OUTLINES = [
  "M1 0.5H-1V-0.5H1z",
  "M-1 -0.5H1L0 1z",
  "M1 0A1 0.62 0 1 1 -1 0A1 0.62 0 1 1 1 0z",
];
const MARKS = [
  "M-1 -0.5H1V-0.2H-1z",
  "M0 1L-0.467 0.3H0.467z",
  "M0.4 0.568A1 0.62 0 0 0 0.4 -0.568z",
];

export function outline(kind, attributes = {}) {
  return svg("path", { d: OUTLINES[kind], ...attributes });
}

export function solidPart(kind, place) {
  return svg("g", { class: "solid", transform: matrix(place) }, outline(kind), svg("path", { d: MARKS[kind], class: "mark" }));
}

// The outlines of all parts of a whole.
export function wholeOutline(parts) {
  return parts.map(({ kind, pose }) => outline(kind, { transform: matrix(pose) }));
}

// A small picture of parts, for buttons.
export function thumbnail(parts) {
  return svg("svg", { viewBox: "-1.15 -1.15 2.3 2.3", class: "shape-thumb", "aria-hidden": "true" },
    svg("g", { transform: "scale(1 -1)" }, parts.map(({ kind, pose }) => solidPart(kind, pose))));
}

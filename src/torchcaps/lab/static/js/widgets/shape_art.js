// The parts of each world as SVG, in their own coordinates with y up: the shape, and the dark marks that show which way
// up it is. Shapes of varying form are drawn in the middle of their range, as the server draws them.

import { svg } from "../core/dom.js";
import { matrix } from "../core/similarity.js";

const WORLDS = {
  shapes: [
    { outline: "M1 0.5H-1V-0.5H1z", marks: [["mark", "M-1 -0.5H1V-0.2H-1z"]] },
    { outline: "M-1 -0.5H1L0 1z", marks: [["mark", "M0 1L-0.467 0.3H0.467z"]] },
    { outline: "M1 0A1 0.62 0 1 1 -1 0A1 0.62 0 1 1 1 0z", marks: [["mark", "M0.4 0.568A1 0.62 0 0 0 0.4 -0.568z"]] },
  ],
  faces: [
    {
      outline: "M1 0A1 0.685 0 1 1 -1 0A1 0.685 0 1 1 1 0z",
      marks: [["lid", "M0.893 0.308A1 0.685 0 0 1 -0.893 0.308z"], ["pupil", "M0.36 -0.068A0.36 0.36 0 1 1 -0.36 -0.068A0.36 0.36 0 1 1 0.36 -0.068z"]],
    },
    { outline: "M-0.625 -0.5H0.625L0 1z", marks: [["mark", "M-0.625 -0.5H0.625L0.467 -0.12H-0.467z"]] },
    { outline: "M-1 0.28Q0 -1 1 0.28Q0 0.16 -1 0.28z", marks: [["mark", "M-1 0.28Q0 -0.42 1 0.28Q0 0.16 -1 0.28z"]] },
  ],
};

export function createArt(world) {
  const shapes = WORLDS[world];

  function outline(kind, attributes = {}) {
    return svg("path", { d: shapes[kind].outline, ...attributes });
  }

  function solid(kind, place) {
    return svg("g", { class: "solid", transform: matrix(place) }, outline(kind),
      shapes[kind].marks.map(([name, d]) => svg("path", { d, class: name })));
  }

  return {
    outline,
    solid,
    // The outlines of all parts of a whole.
    wholeOutline(parts) {
      return parts.map(({ kind, pose }) => outline(kind, { transform: matrix(pose) }));
    },
    // A small picture of parts, for buttons.
    thumbnail(parts) {
      return svg("svg", { viewBox: "-1.15 -1.15 2.3 2.3", class: "shape-thumb", "aria-hidden": "true" },
        svg("g", { transform: "scale(1 -1)" }, parts.map(({ kind, pose }) => solid(kind, pose))));
    },
  };
}

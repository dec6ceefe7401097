// All Chinese texts, by the English ones; a file for each view.

import attack from "./attack.js";
import clusters from "./clusters.js";
import compare from "./compare.js";
import draw from "./draw.js";
import overlap from "./overlap.js";
import page from "./page.js";
import parts from "./parts.js";
import run from "./run.js";
import tour from "./tour.js";
import toy from "./toy.js";
import tweak from "./tweak.js";
import votes from "./votes.js";
import widgets from "./widgets.js";

export default {
  ...page, ...widgets, ...tour, ...draw, ...tweak, ...overlap, ...votes, ...parts, ...toy, ...clusters, ...attack,
  ...compare, ...run,
};

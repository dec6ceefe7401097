// View 6: the routing code as clustering in the plane.

import { button, card, h } from "../dom.js";
import { createChoices } from "../choices.js";
import { createNotice } from "../notice.js";
import { createPlane } from "../plane.js";
import { createPlayer } from "../player.js";
import { createSlider } from "../slider.js";
import { createVerdict } from "../verdict.js";
import { makeSet, SET_NAMES } from "../point_sets.js";
import { newest } from "../api.js";

const KINDS = [["full", "Full"], ["diagonal", "Diagonal"], ["spherical", "Spherical"], ["fixed", "Fixed σ"], ["kmeans", "k-means"]];
const WORDS = {
  full: "Any ellipse: each cluster learns a whole covariance.",
  diagonal: "Ellipses along the axes: what EM routing uses for poses.",
  spherical: "Circles, each of its own size.",
  fixed: "Circles of one given size: only the means move.",
  kmeans: "The nearest mean takes the point: fixed σ, shrunk to nothing.",
};
const MOST = 500;

export function create(stage) {
  let points = [];
  let steps = [];
  let seed = 0;
  let atEnd = true;

  const plane = createPlane({ label: "Plane of points and clusters: click, or arrow keys and Enter, to add a point", onAdd: add });
  const player = createPlayer({ label: "Iteration", delay: 350, onChange: draw });
  const verdict = createVerdict();
  const meaning = h("p", { class: "soft small" }, WORDS.full);
  const kind = createChoices({ label: "Shape of the clusters", options: KINDS, value: "full", onChange: changedKind });
  const clusters = createSlider({ label: "Clusters", min: 1, max: 8, step: 1, value: 3, onInput: again });
  const sigma = createSlider({ label: "σ", min: 0.02, max: 1, step: 0.01, value: 0.2, format: (value) => value.toFixed(2), onInput: again });
  const iterations = createSlider({ label: "Iterations", min: 1, max: 50, step: 1, value: 15, onInput: again });
  const sets = h("div", { class: "row" }, SET_NAMES.map((name) => button(name, () => load(name))));

  stage.append(
    h("div", { class: "w12 toolbar" }, kind.element, meaning),
    card("w8 wide-first", "The plane", "click to add a point", plane.element, player.element),
    card("w4 wide-first", "Points and clusters", null, verdict.element,
      clusters.element, sigma.element, iterations.element,
      h("div", { class: "row" }, button("Start elsewhere", restart, "main"), button("Undo", undo), button("Clear", clear)),
      h("p", { class: "small soft" }, "Point sets"), sets),
  );
  sigma.element.hidden = true;

  const ask = newest("api/clusters", stage, (answer, body) => {
    if (body.points !== points) return;
    steps = answer.iterations;
    player.load(steps.length, atEnd ? steps.length - 1 : 0);
    if (!atEnd) player.start();
  }, createNotice(stage));

  // play: from the first iteration; otherwise show the end, as while placing points
  function send(play) {
    player.stop();
    atEnd = !play || matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (points.length >= 2) {
      ask({ points, clusters: clusters.value, kind: kind.value, iterations: iterations.value, sigma: sigma.value, seed });
    } else {
      steps = [];
      player.load(1, 0);
    }
  }

  function draw(index) {
    const step = steps[index] ?? null;
    const fits = step?.assignment.length === points.length;
    plane.draw(points, fits ? step : null);
    const words = fits ? `shared as ${parts(step, points.length)}` : "";
    verdict.set(points.length === 1 ? "1 point" : `${points.length} points`, points.length < 2 ? "place two or more" : words);
  }

  function change(next, play = false) {
    points = next;
    draw(player.index);
    send(play);
  }

  function add(point) {
    if (points.length < MOST) change([...points, point]);
  }

  function load(name) {
    const set = makeSet(name);
    clusters.set(set.clusters);
    seed += 1;
    change(set.points, true);
  }

  function changedKind(value) {
    meaning.textContent = WORDS[value];
    sigma.element.hidden = value !== "fixed";
    send(true);
  }

  function again() { send(false); }
  function undo() { change(points.slice(0, -1)); }
  function clear() { change([]); }
  function restart() { seed += 1; send(true); }

  load(SET_NAMES[0]);
  return { hide: player.stop };
}

// How many points each cluster has: whole numbers if they add up to the points, else tenths that do.
function parts({ assignment, mass }, total) {
  const shares = mass.map((_, cluster) => assignment.reduce((sum, row) => sum + row[cluster], 0));
  const whole = shares.map(Math.round);
  if (whole.reduce((sum, part) => sum + part, 0) === total) return whole.join(" + ");
  const tenths = shares.map((share) => Math.floor(share * 10));
  const rest = total * 10 - tenths.reduce((sum, part) => sum + part, 0);
  const nearest = shares.map((share, cluster) => [share * 10 - tenths[cluster], cluster]).sort(([a], [b]) => b - a);
  for (const [, cluster] of nearest.slice(0, Math.max(0, rest))) tenths[cluster] += 1;
  return tenths.map((part) => (part / 10).toFixed(1)).join(" + ");
}

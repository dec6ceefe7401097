// View 6: the routing algorithms as clustering in the plane.

import { latestOnly } from "../core/api.js";
import { button, card, h } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { numberText } from "../core/scale.js";
import { keepSettings, numberOf, settingOf, settingsOf } from "../core/settings.js";
import { createChoices } from "../widgets/choices.js";
import { createLineChart } from "../widgets/line_chart.js";
import { createPlane } from "../widgets/plane.js";
import { createPlayer } from "../widgets/player.js";
import { createSlider } from "../widgets/slider.js";
import { makeSet, packPoints, SET_NAMES, unpackPoints } from "./point_sets.js";

const KINDS = [
  ["full", "Full"], ["diagonal", "Diagonal"], ["spherical", "Spherical"], ["fixed", "Fixed σ"], ["rows", "Rows"], ["kmeans", "k-means"],
];
const DESCRIPTIONS = {
  full: "Ellipses of any orientation: each cluster has a full covariance.",
  diagonal: "Ellipses along the axes, as in the EM routing of 2018.",
  spherical: "Circles of different sizes: EM routing with one variance for each cluster.",
  fixed: "Circles of one fixed size: only the means change, as in k-means with soft assignments.",
  rows: "Joined points are one pose, a 2 × 2 matrix: a cluster has two means, and one covariance for both.",
  kmeans: "Each point belongs to the nearest mean, as in k-means routing with temperature 0: the limit of a fixed σ that goes to 0.",
};
const MAX_POINTS = 500;

export function create(stage) {
  let points = [];
  const past = []; // the points before each change, for Undo
  let steps = [];
  let seed = numberOf("clusters", "seed", [0, 1e9], 0);
  let showLast = true;

  const plane = createPlane({
    label: t("Points and clusters: click, or use the arrow keys and Enter, to add a point"), onAdd: add,
  });
  const player = createPlayer({ label: t("Iteration"), delay: 350, onChange: draw });
  const curve = createLineChart({
    label: t("Log-likelihood per point in each iteration"), xTitle: t("iteration"), height: 150, onPick: (index) => { player.stop(); player.goTo(index); },
  });
  const verdict = createVerdict();
  const description = h("p", { class: "soft small" }, "");
  const rings = h("p", { class: "soft small" }, t("Rings: one and two standard deviations around each mean."));
  const kind = createChoices({ label: t("Covariance of the clusters"), options: KINDS.map(([name, label]) => [name, t(label)]), value: settingOf("clusters", "kind", Object.keys(DESCRIPTIONS), "full"), onChange: kindChanged });
  const clusters = createSlider({ label: t("Clusters"), min: 1, max: 8, step: 1, value: numberOf("clusters", "clusters", [1, 8], 3), onInput: refit });
  const sigma = createSlider({
    label: "σ", min: 0.02, max: 1, step: 0.01, value: numberOf("clusters", "sigma", [0.02, 1], 0.2), format: (value) => value.toFixed(2), onInput: refit,
  });
  const iterations = createSlider({ label: t("Iterations"), min: 1, max: 50, step: 1, value: numberOf("clusters", "iterations", [1, 50], 30), onInput: refit });
  const sets = h("div", { class: "row" }, SET_NAMES.map((name) => button(t(name), () => load(name))));

  stage.append(
    h("div", { class: "w12 toolbar" }, kind.element, description),
    card("w8 wide-first", t("The plane"), t("click to add a point"), verdict.element, plane.element, rings, player.element),
    card("w4 wide-first", t("Points and clusters"), null,
      clusters.element, sigma.element, iterations.element,
      h("div", { class: "row" }, button(t("New start"), restart, "main"), button(t("Undo"), undo), button(t("Clear"), clear)),
      h("p", { class: "small soft" }, t("Point sets")), sets, curve.element),
  );
  describeKind();
  verdict.element.classList.add("plain"); // a count, not an answer of a network

  const query = latestOnly("api/clusters", stage, (response, body) => {
    if (body.points !== points) return;
    steps = response.iterations;
    player.load(steps.length, showLast ? steps.length - 1 : 0);
    if (!showLast) player.start();
  }, createNotice(stage));

  // play: animate from the first iteration; otherwise show the last one
  function send(play) {
    player.stop();
    showLast = !play || matchMedia("(prefers-reduced-motion: reduce)").matches;
    const settings = { clusters: clusters.value, kind: kind.value, iterations: iterations.value, sigma: sigma.value, seed };
    keepSettings("clusters", { ...settings, points: packPoints(points) });
    if (points.length >= 2) {
      query({ points, ...settings });
    } else {
      steps = [];
      player.load(1, 0);
    }
  }

  function draw(index) {
    const step = steps[index] ?? null;
    const fits = step?.assignment.length === points.length;
    plane.draw(points, fits ? step : null);
    const sizes = fits ? describe(step, clusterSizes(step, points.length)) : "";
    showCurve(fits ? steps.map((each) => each.log_likelihood) : [], index);
    verdict.set(points.length === 1 ? t("1 point") : t("{count} points", { count: points.length }),
      points.length < 2 ? t("add two or more") : sizes);
  }

  function showCurve(values, index) {
    curve.element.hidden = values.length < 2 || values.includes(null);
    if (curve.element.hidden) return;
    curve.show({
      x: values.map((_, step) => step + 1), at: Math.min(index, values.length - 1),
      lines: [{ name: t("log-likelihood per point"), values, kind: "only" }],
      describe: (step) => t("iteration {index}: log-likelihood {value} per point", { index: step + 1, value: numberText(values[step], 3) }),
    });
  }

  function change(next, play = false) {
    past.push(points);
    show(next, play);
  }

  function show(next, play = false) {
    points = next;
    draw(player.index);
    send(play);
  }

  function add(point) {
    if (points.length < MAX_POINTS) change([...points, point]);
  }

  function load(name) {
    seed += 1;
    const set = makeSet(name, seed);
    clusters.set(set.clusters);
    kind.set(set.kind ?? (kind.value === "rows" ? "full" : kind.value)); // only pairs are made for rows
    describeKind();
    change(set.points, true);
  }

  function kindChanged() {
    describeKind();
    send(true);
  }

  function describeKind() {
    description.textContent = t(DESCRIPTIONS[kind.value]);
    sigma.element.hidden = kind.value !== "fixed";
    rings.hidden = kind.value === "kmeans";
  }

  function refit() { send(false); }
  function undo() { if (past.length) show(past.pop()); }
  function clear() { if (points.length) change([]); }
  function restart() { seed += 1; send(true); }

  const saved = unpackPoints(settingsOf("clusters").get("points"));
  if (saved?.length) show(saved);
  else {
    const set = makeSet(SET_NAMES[0], seed);
    clusters.set(set.clusters);
    show(set.points, true);
  }
  return {
    hide: player.stop,
    exports: () => steps.length && {
      table: [["x", "y", "cluster"], ...points.map(([x, y], index) => [x, y, clusterOf(steps.at(-1).assignment[index])])],
      data: { points, kind: kind.value, clusters: clusters.value, seed, iterations: steps },
    },
  };
}

// The number of the cluster that a point belongs to most, from 1; 0 for a point without one.
function clusterOf(shares) {
  const most = Math.max(...(shares ?? [0]));
  return most > 0 ? shares.indexOf(most) + 1 : 0;
}

function describe({ log_likelihood: likelihood }, sizes) {
  if (likelihood === null) return t("in clusters of {sizes}", { sizes });
  return t("in clusters of {sizes}; log-likelihood {value} per point", { sizes, value: numberText(likelihood, 2) });
}

// The number of points in each cluster, rounded so that the sum is right: to integers if possible, else to tenths.
function clusterSizes({ assignment, mass }, total) {
  const shares = mass.map((_, cluster) => assignment.reduce((sum, row) => sum + row[cluster], 0));
  const rounded = shares.map(Math.round);
  if (rounded.reduce((sum, size) => sum + size, 0) === total) return rounded.join(" + ");
  const tenths = shares.map((share) => Math.floor(share * 10));
  const rest = total * 10 - tenths.reduce((sum, part) => sum + part, 0);
  const nearest = shares.map((share, cluster) => [share * 10 - tenths[cluster], cluster]).sort(([a], [b]) => b - a);
  for (const [, cluster] of nearest.slice(0, Math.max(0, rest))) tenths[cluster] += 1;
  return tenths.map((part) => (part / 10).toFixed(1)).join(" + ");
}

// View 6: the routing algorithms as clustering in the plane.

import { latestOnly } from "../core/api.js";
import { button, card, h, svg } from "../core/dom.js";
import { createNotice, createVerdict } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { numberText } from "../core/scale.js";
import { keepSettings, numberOf, settingOf, settingsOf } from "../core/settings.js";
import { createChoices } from "../widgets/choices.js";
import { createLineChart } from "../widgets/line_chart.js";
import { createPlane, pointMark, SIZE } from "../widgets/plane.js";
import { createPlayer } from "../widgets/player.js";
import { createSlider } from "../widgets/slider.js";
import { FIRST_SET, makeSet, packPoints, SET_NAMES, unpackPoints } from "./point_sets.js";

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
const WIDE = 2; // times the spread of another capsule: from there on, it is said what a wide ellipse is

export function create(stage) {
  let points = [];
  const past = []; // the points before each change, for Undo
  let steps = [];
  let seed = numberOf("clusters", "seed", [0, 1e9], 0);
  let showLast = true;
  let set = null; // the name of the set that is shown

  const plane = createPlane({
    label: t("Votes and parent capsules: click, or use the arrow keys and Enter, to add a vote"), onAdd: add,
  });
  const player = createPlayer({ label: t("Iteration"), delay: 350, onChange: draw });
  const curve = createLineChart({
    label: t("Log-likelihood per vote in each iteration"), xTitle: t("iteration"), height: 150, onPick: (index) => { player.stop(); player.goTo(index); },
  });
  const verdict = createVerdict();
  const description = h("p", { class: "soft small" }, "");
  const happened = h("p", { class: "small", title: t("EM repeats two steps. E step: each vote is shared among the capsules. M step: each capsule is fitted to its votes.") });
  const list = h("ul", { class: "capsule-list small" });
  const wide = h("p", { class: "small wide-note" });
  const key = (text, ...marks) => h("span", {}, svg("svg", { viewBox: "0 0 26 14", "aria-hidden": "true" }, ...marks), text);
  const rings = key(t("Ellipse: one standard deviation of a capsule's votes; dashed: two"), svg("ellipse", { cx: 13, cy: 7, rx: 6, ry: 3 }), svg("ellipse", { cx: 13, cy: 7, rx: 12, ry: 6, class: "outer" }));
  const slices = key(t("Divided disk: a vote that several capsules share; each slice is a share"), svg("circle", { cx: 13, cy: 7, r: 6 }), svg("path", { d: "M13 7V1A6 6 0 0 1 13 13z", class: "dot" }));
  const legend = h("p", { class: "plane-key soft small" }, rings,
    key(t("Point: one vote, darker where several overlap; color and shape: its capsule"), svg("circle", { cx: 6, cy: 7, r: 4, class: "dot" }), svg("rect", { x: 15, y: 3, width: 8, height: 8, class: "dot" })),
    slices,
    key(t("Cross: the mean of its votes, the capsule's pose"), svg("path", { d: "M7 7h12M13 1v12" })),
    key(t("Line: the way of the mean since iteration 1"), svg("path", { d: "M1 11L12 4L25 7", class: "path" })));
  const kind = createChoices({ label: t("Covariance of the clusters"), options: KINDS.map(([name, label]) => [name, t(label), t(DESCRIPTIONS[name])]), value: settingOf("clusters", "kind", Object.keys(DESCRIPTIONS), "full"), onChange: kindChanged });
  const clusters = createSlider({ label: t("Parent capsules"), min: 1, max: 8, step: 1, value: numberOf("clusters", "clusters", [1, 8], 3), onInput: refit });
  const sigma = createSlider({
    label: "σ", min: 0.02, max: 1, step: 0.01, value: numberOf("clusters", "sigma", [0.02, 1], 0.2), format: (value) => value.toFixed(2), onInput: refit,
  });
  const iterations = createSlider({ label: t("Iterations"), min: 1, max: 50, step: 1, value: numberOf("clusters", "iterations", [1, 50], 30), onInput: refit });
  const buttons = SET_NAMES.map((name) => [name, button(t(name), () => load(name))]);

  stage.append(
    h("div", { class: "w12 toolbar" }, h("span", { class: "small soft" }, t("Method")), kind.element, description),
    card("w8 wide-first plane-card", t("Votes and parent capsules"), t("click to add a vote"), h("div", { class: "row between" }, verdict.element, player.element), happened, plane.element, legend,
      h("p", { class: "small soft" }, t("Spread of a capsule: the mean distance of its votes from its cross, where the plane is {width} wide. The smaller, the better they agree.", { width: numberText(SIZE[0]) })), list, wide,
      h("p", { class: "soft small" }, t("Not shown: the activation of a capsule. In EM routing, votes that lie close together raise it, and more of them raise it more; how close is learned. k-means routing takes the squashed length of their sum.")),
      h("p", { class: "soft small" }, t("The code is that of EM and k-means routing. In a network, votes have more than two numbers, and a part makes another vote for each parent; here its vote is the same for all. The networks of this lab route in at most 3 iterations and were trained with that many; here nothing is trained, and the fit may get better for longer."))),
    card("w4 wide-first", t("Settings"), null,
      clusters.element, sigma.element, iterations.element,
      h("div", { class: "row" }, button(t("New starts"), restart, "main"), button(t("Undo"), undo), button(t("Clear"), clear)),
      h("p", { class: "small soft" }, t("The capsules start at votes that are chosen at random. This is tried twelve times, and the best fit is shown; New starts tries twelve others.")),
      h("p", { class: "small soft" }, t("Sets of votes")), h("div", { class: "row" }, buttons.map(([, each]) => each)), curve.element),
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
    keepSettings("clusters", { ...settings, points: packPoints(points), ...(set ? { set } : {}) });
    for (const [name, each] of buttons) each.setAttribute("aria-pressed", name === set);
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
    const sizes = fits ? clusterSizes(step, points.length) : [];
    plane.draw(points, fits ? step : null, sizes.map((_, cluster) => t("capsule {number}", { number: cluster + 1 })), steps.slice(0, index));
    const spreads = fits ? spreadsOf(points, step) : [];
    list.replaceChildren(...sizes.map((size, cluster) => h("li", {}, svg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, pointMark(cluster)),
      t("capsule {number}: {size} votes, spread {spread}", { number: cluster + 1, size, spread: spreadText(spreads[cluster]) }))));
    wide.textContent = fits ? describeWide(spreads, kind.value) : "";
    happened.textContent = fits ? t(index === 0 ? "Iteration 1, from a first guess: each vote is shared among capsules that start at {count} of the votes." : whatHappens(), { index: index + 1, before: index, count: clusters.value }) : "";
    showCurve(fits ? steps.map((each) => each.log_likelihood) : [], index);
    verdict.set(points.length === 1 ? t("1 vote") : t("{count} votes", { count: points.length }),
      points.length < 2 ? t("add two or more") : fits ? t("shared among the parent capsules: {sizes}", { sizes: sizes.join(" + ") }) : "");
  }

  // In the iterations after the first.
  function whatHappens() {
    if (kind.value === "kmeans") return "Iteration {index}: each vote goes to the capsule whose mean of iteration {before} is nearest, then each mean moves to the middle of its votes.";
    return kind.value === "fixed"
      ? "Iteration {index}, E step: each vote is shared by the density of each circle at the vote, times the circle's part of all votes. M step: each circle moves to the mean of its votes."
      : "Iteration {index}, E step: each vote is shared by the density of each ellipse at the vote, times the ellipse's part of all votes. M step: each ellipse takes the mean and the spread of its votes.";
  }

  function showCurve(values, index) {
    curve.element.hidden = values.length < 2 || values.includes(null);
    if (curve.element.hidden) return;
    curve.show({
      x: values.map((_, step) => step + 1), at: Math.min(index, values.length - 1),
      lines: [{ name: t("log-likelihood per vote"), values, kind: "only" }],
      describe: (step) => t("iteration {index}: log-likelihood {value} per vote", { index: step + 1, value: numberText(values[step], 3) }),
    });
  }

  // name: of the set that the points are
  function change(next, play = false, name = null) {
    past.push([points, set]);
    show(next, play, name);
  }

  function show(next, play = false, name = null) {
    [points, set] = [next, name];
    draw(player.index);
    send(play);
  }

  function add(point) {
    if (points.length < MAX_POINTS) change([...points, point]);
  }

  function load(name) {
    seed += 1;
    const made = makeSet(name, seed);
    clusters.set(made.clusters);
    kind.set(made.kind ?? (kind.value === "rows" ? "full" : kind.value)); // only pairs are made for rows
    describeKind();
    change(made.points, true, name);
  }

  function kindChanged() {
    describeKind();
    send(true);
  }

  function describeKind() {
    description.textContent = t(DESCRIPTIONS[kind.value]);
    sigma.element.hidden = kind.value !== "fixed";
    rings.hidden = slices.hidden = kind.value === "kmeans"; // it has no spread, and a vote belongs to one capsule
  }

  function refit() { send(false); }
  function undo() {
    if (!past.length) return;
    const [before, name] = past.pop();
    show(before, false, name);
  }
  function clear() { if (points.length) change([]); }
  function restart() { seed += 1; send(true); }

  const saved = unpackPoints(settingsOf("clusters").get("points"));
  if (saved?.length) show(saved, false, settingOf("clusters", "set", SET_NAMES, null));
  else {
    const made = makeSet(FIRST_SET, seed);
    clusters.set(made.clusters);
    show(made.points, true, FIRST_SET);
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

// The mean distance of each cluster's points from its mean, each point counted by its share; null without points. With
// two means, those of rows, a point belongs to the first or to the second by its place in its pair.
export function spreadsOf(points, { means, assignment }) {
  return means.map((mean, cluster) => {
    const distance = ([x, y], index) => {
      const from = mean.length === 4 ? 2 * (index % 2) : 0;
      return Math.hypot(x - mean[from], y - mean[from + 1]);
    };
    const total = assignment.reduce((sum, shares) => sum + shares[cluster], 0);
    return total > 0 ? points.reduce((sum, point, index) => sum + assignment[index][cluster] * distance(point, index), 0) / total : null;
  });
}

function spreadText(spread) {
  return spread === null ? "–" : Number(spread.toPrecision(2)).toString();
}

// What a wide ellipse is, if one capsule has a much larger spread than another; "" if there is none, or no ellipse.
export function describeWide(spreads, kind) {
  const known = spreads.filter((spread) => spread !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (known.length < 2 || kind === "kmeans" || kind === "fixed" || !(high >= WIDE * low) || low < 0.005) return "";
  return t("Capsule {wide} has a wide ellipse because it takes the votes that lie far apart: its spread is {times} times that of capsule {narrow}, whose votes lie closer together.", {
    wide: spreads.indexOf(high) + 1, narrow: spreads.indexOf(low) + 1, times: (spreadText(high) / spreadText(low)).toFixed(1), // as they are shown
  });
}

// The number of points in each cluster, as texts, rounded so that the sum is right: to integers if possible, else to tenths.
function clusterSizes({ assignment, mass }, total) {
  const shares = mass.map((_, cluster) => assignment.reduce((sum, row) => sum + row[cluster], 0));
  const rounded = shares.map(Math.round);
  if (rounded.reduce((sum, size) => sum + size, 0) === total) return rounded.map(String);
  const tenths = shares.map((share) => Math.floor(share * 10));
  const rest = total * 10 - tenths.reduce((sum, part) => sum + part, 0);
  const nearest = shares.map((share, cluster) => [share * 10 - tenths[cluster], cluster]).sort(([a], [b]) => b - a);
  for (const [, cluster] of nearest.slice(0, Math.max(0, rest))) tenths[cluster] += 1;
  return tenths.map((part) => (part / 10).toFixed(1));
}

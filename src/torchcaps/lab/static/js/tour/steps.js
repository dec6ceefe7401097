// The steps of the tour. A step acts and returns a sentence about what is then shown; `target` is what it is about.

import { t } from "../core/i18n.js";

// A 2, as fractions of the pad.
const STROKES = [[
  [0.3, 0.32], [0.33, 0.25], [0.39, 0.2], [0.47, 0.18], [0.56, 0.19], [0.63, 0.24], [0.66, 0.31], [0.65, 0.39], [0.61, 0.47],
  [0.55, 0.55], [0.48, 0.63], [0.4, 0.71], [0.32, 0.79], [0.4, 0.79], [0.49, 0.79], [0.58, 0.79], [0.68, 0.78],
]];
const PAIR = "overlap?first=32&second=0&places=1_2_6_5"; // a 4 and a 0
const HOUSE = "parts?scene=0_0_0_140_0.6";

export const STEPS = [
  {
    target: "#view-draw .pad-card",
    async run({ visit, draw }) {
      const view = await visit("draw");
      await draw(view, STROKES);
      const { best, lengths } = view.exports().data;
      return t("This digit was drawn for you. Of the ten digit capsules, that of {best} is the longest, with length {length}: this is the network's answer.",
        { best, length: lengths[best].toFixed(2) });
    },
  },
  {
    target: "#view-draw .strip-card",
    async run({ visit }) {
      const { grid: [rows, columns], best } = (await visit("draw")).exports().data;
      return t("From the image to the reconstruction: a convolution finds features, {count} positions have primary capsules, these vote, and the decoder draws the longest of the ten digit capsules, {best}.",
        { count: rows * columns, best });
    },
  },
  {
    target: "#view-draw .coupling-card",
    async run({ visit, slide }) {
      const view = await visit("draw");
      await slide("couplings", 0, 1);
      const { best, couplings } = view.exports().data;
      return t("These are the {count} iterations of routing. At first every position sends the same share to all digits; in the end {best} gets more than any other digit.",
        { count: couplings.length, best });
    },
  },
  {
    target: "#view-tweak .stage",
    async run({ visit, slide }) {
      await visit("tweak");
      const [before, after] = await slide("tweak", 0.5, 0.95);
      return t("One of the 16 numbers of the capsule has moved from {before} to {after}. The decoder drew the digit again at each step.",
        { before: before.toFixed(2), after: after.toFixed(2) });
    },
  },
  {
    target: "#view-votes .stage",
    async run({ visit, slide }) {
      const { votes: { iterations } } = (await visit("votes?routing=dynamic")).exports().data;
      const { activation } = iterations.at(-1);
      const best = activation.indexOf(Math.max(...activation));
      await slide("votes", 0, 1, 2);
      return t("The parts of the image vote for the pose of each digit. From the first iteration to the last, they send a growing share to {best}, with which their votes agree.", { best });
    },
  },
  {
    target: "#view-overlap .stage",
    async run({ visit }) {
      const { best: [one, two] } = (await visit(PAIR)).exports().data.capsules;
      return t("Two digits lie over each other. The two longest capsules are {one} and {two}, and each of them draws its own digit.",
        { one: Math.min(one, two), two: Math.max(one, two) });
    },
  },
  {
    target: "#view-parts .stage",
    async run({ visit }) {
      await visit(HOUSE);
      return t("A house, turned by 140 degrees. The network finds its parts, and the wholes that they predict agree.");
    },
  },
  {
    target: "#view-parts .stage",
    async run({ visit, press }) {
      await visit(HOUSE);
      await press("scramble");
      return t("The same parts, put together in a wrong way: parts are found, but no whole.");
    },
  },
  {
    target: "#view-draw .pad-card",
    async run({ visit, restore }) {
      await visit("draw");
      await restore();
      return t("Now it is your turn: draw a digit, or open a view.");
    },
  },
];

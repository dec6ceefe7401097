// One row for each class, a dot for each vote: to the right how well it agrees, up how much its part sends to the class.

import { numberText, ticks } from "../core/scale.js";
import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";

const [MIN_WIDTH, FIRST_WIDTH] = [260, 640]; // FIRST_WIDTH until the page has measured it
const [ROW, HEAD] = [112, 22]; // HEAD: the title of the vertical axes
const [ABOVE, BELOW] = [25, 10]; // of a row: where the axis of what is sent ends
const [LEFT, RIGHT, BOTTOM] = [66, 16, 62];
const [RADIUS, LARGEST] = [3.2, 5.2]; // of dots that count alike; of the one that counts most
const CROWDED = 5; // equal shares: on a longer axis, the number 0 stands lower, so that it does not lie over the 1
const LABEL = 96; // pixels that the label of a mean needs beside its line

const REASONS = {
  em: "The activation also depends on how much a digit gets, so {digits} can lie farther right than {answer} and still lose.",
  heinsen: "The activation depends only on what each part sends, so {digits} can lie farther right than {answer} and still lose.",
};

export function createStrips(label) {
  const picture = svg("svg", { class: "strips", role: "img", "aria-label": label });
  const note = h("p", { class: "soft small" });
  const means = h("p", { class: "small means-text" });
  const line = h("p", { class: "soft small" });
  const element = h("div", { class: "strips-box" }, picture, line, note, means);
  let response = null;
  let step = null;
  let rows = [];
  let limits = [0, 1];
  let x = () => 0;
  let y = () => 0; // (row, equal shares) -> place
  let limit = 0; // labels of means beyond it are on the left of their line

  // { shown, measure, parts, iterations } of a response, and whether the measure has a lower bound
  function load(next) {
    response = next;
    step = null;
    layOut();
  }

  // All iterations have the same axes.
  function layOut() {
    const { shown, measure, parts, iterations, bounded } = response;
    const most = iterations[0].activation.length; // equal shares: all that a part sends; the same axis in all pictures
    limits = rangeOf([response]);
    const answer = answerOf(response);
    const [low, high] = limits;
    const width = Math.max(MIN_WIDTH, element.clientWidth || FIRST_WIDTH);
    const floor = HEAD + shown.length * ROW;
    limit = width - RIGHT - LABEL;
    x = (value) => LEFT + Math.max(0, Math.min(1, (value - low) / (high - low || 1))) * (width - LEFT - RIGHT);
    y = (row, shares) => HEAD + (row + 1) * ROW - BELOW - (shares / most) * (ROW - ABOVE - BELOW);
    const axis = svg("g", { class: "grid" }, ...ticks(low, high, width > 500 ? 8 : 5).flatMap((value) => [
      svg("line", { x1: x(value), x2: x(value), y1: HEAD + 8, y2: floor }),
      svg("text", { x: x(value), y: floor + 18, "text-anchor": "middle" }, numberText(value)),
    ]), svg("text", { x: 0, y: 12 }, t("↑ how many times an equal share a part sends")),
    svg("text", { x: width - RIGHT, y: floor + 38, "text-anchor": "end", class: "axis-title" }, bounded ? t("{measure} of vote and capsule →", { measure }) : `${measure} →`),
    svg("text", { x: width - RIGHT, y: floor + 56, "text-anchor": "end", class: "axis-sense" }, t("farther right = agrees better")));
    const alike = parts.every((weight) => weight === parts[0]);
    const radius = (part) => (alike ? RADIUS : LARGEST * Math.sqrt(parts[part] / Math.max(...parts)));
    line.textContent = alike ? t("Solid line: the mean of the votes, each counted by what its part sends to the digit.")
      : t("Area of a dot: the activation of its part. Solid line: the mean of the votes, each counted by this activation times what the part sends to the digit.");
    rows = shown.map((digit, index) => {
      const dots = iterations[0].agreements[index].map((_, part) => svg("circle", { r: radius(part).toFixed(2) }, svg("title", {})));
      const levels = svg("g", { class: "grid levels" }, ...[0, 1, most].map((shares) => svg("text", { x: LEFT - 12, y: y(index, shares) + (most > CROWDED && shares === 0 ? 10 : 4), "text-anchor": "end" }, `${numberText(Number(shares.toFixed(1)))} ×`)));
      const mean = svg("g", { class: "mean" }, svg("line", { y1: HEAD + index * ROW + 8, y2: HEAD + (index + 1) * ROW - 8 }),
        svg("text", { y: HEAD + index * ROW + 14, x: 6 }));
      return { digit, dots, mean, element: svg("g", { class: digit === answer ? "strip best" : "strip" }, levels,
        svg("line", { class: "equal", x1: LEFT - 6, x2: width - RIGHT, y1: y(index, 1), y2: y(index, 1) }),
        svg("text", { class: "name", x: 8, y: HEAD + index * ROW + ROW / 2 + 10 }, String(digit)), svg("g", { class: "dots" }, ...dots), mean) };
    });
    picture.setAttribute("viewBox", `0 0 ${width} ${floor + BOTTOM}`);
    picture.replaceChildren(axis, ...rows.map((row) => row.element));
  }

  function show(next) {
    step = next;
    const { agreements, couplings, agreement } = step;
    rows.forEach(({ digit, dots, mean }, index) => {
      dots.forEach((dot, child) => {
        const [value, shares] = [agreements[index][child], equalShares(step, couplings[index][child])];
        dot.setAttribute("cx", x(value));
        dot.setAttribute("cy", y(index, shares));
        dot.firstChild.textContent = t("part {part}: {measure} {value}, sends {shares} times an equal share", {
          part: child + 1, measure: response.measure, value: numberText(value, 3), shares: shares.toFixed(2),
        });
      });
      mean.style.transform = `translateX(${x(agreement[digit])}px)`;
      mean.lastChild.textContent = t("mean {value}", { value: numberText(agreement[digit], limits[1] - limits[0] < 10 ? 2 : 1).replace(/^−(?=[0.]+$)/, "") });
      const right = x(agreement[digit]) > limit;
      mean.lastChild.setAttribute("text-anchor", right ? "end" : "start");
      mean.lastChild.setAttribute("x", right ? -6 : 6);
    });
    means.textContent = explainMeans(response, step);
    means.hidden = !means.textContent;
    const beyond = agreements.flat().filter((value) => value < limits[0]).length;
    note.hidden = beyond === 0;
    note.textContent = t("{count} dots stand at the left edge: their values are below {low}.", { count: beyond, low: numberText(limits[0], 0) });
  }

  // As wide as its box, so that texts have their own size.
  new ResizeObserver(() => {
    if (!response) return;
    const shown = step;
    layOut();
    if (shown) show(shown);
  }).observe(element);

  return { element, load, show };
}

// A share of what one part sends, or of all that is sent, as a multiple of what each class gets at first.
export function equalShares({ activation }, share) {
  return share * activation.length;
}

// The digit with the highest activation in the last iteration.
export function answerOf({ iterations }) {
  const { activation } = iterations.at(-1);
  return activation.indexOf(Math.max(...activation));
}

// How far the activation of a digit lies above that of the next one, in one iteration.
export function leadOf({ activation }, digit) {
  return activation[digit] - Math.max(...activation.filter((_, other) => other !== digit));
}

// Why digits can lie farther right than the one with the highest activation; "" if none does.
export function explainMeans({ routing, shown }, { activation, agreement }) {
  const answer = activation.indexOf(Math.max(...activation));
  const ahead = shown.filter((digit) => agreement[digit] > agreement[answer]);
  if (!ahead.length || !(routing in REASONS)) return "";
  return t(REASONS[routing], { digits: ahead.join(t(" and ")), answer });
}

// Products and cosines of votes have a lower bound, log densities have none.
export function isBounded({ measure }) {
  return measure === "scalar product" || measure === "cosine";
}

// From the lowest to the highest value of responses with one measure. A log density has no lower bound: there the few
// votes that are very low do not count, because nothing else could be told apart.
export function rangeOf(responses) {
  const ranges = responses.map((response) => {
    const all = response.iterations.flatMap((each) => each.agreements.flat()).sort((one, two) => one - two);
    const [low, third, high] = [all[0], all[Math.floor(all.length / 3)], all[all.length - 1]];
    return [(response.bounded ?? isBounded(response)) ? low : Math.max(low, third - (high - third)), high];
  });
  return [Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high))];
}

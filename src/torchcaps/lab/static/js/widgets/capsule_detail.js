// One primary capsule: what it sees, its vote for each digit beside the digit's capsule, and how much it sends, in one
// iteration of the routing.

import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { numberText } from "../core/scale.js";
import { createImage, ink } from "./canvas_image.js";
import { capsuleAt, capsuleNumber } from "./capsule_number.js";
import { createColorBar } from "./color_bar.js";
import { createSlider } from "./slider.js";

const [CELL, ROW, GAP, BAR] = [10, 18, 3, 40];

// onChoose({ row, column, type }) when the visitor moves the slider
export function createCapsuleDetail({ onChoose }) {
  const seen = createImage({ label: t("What this capsule sees"), resolution: 168, smooth: false, kind: "field-crop" });
  const place = h("p", { class: "small", role: "status" });
  const loop = h("p", { class: "small loop" });
  const lengths = h("p", { class: "small soft lengths-note" }, t("All primary capsules are long, also on a blank sheet. In this network, their lengths decide little: with equal lengths, the answer is the same for 40 of 40 test digits. Their directions say what they see."));
  const columns = {
    names: column("names", t("digit"), 30),
    votes: column("cells", t("its vote"), 16 * CELL),
    capsules: column("cells", t("digit's capsule"), 16 * CELL),
    terms: column("terms", t("scalar products"), 100),
    sums: column("sums", t("sum"), BAR + 40),
    shares: column("shares", t("sends"), BAR + 34),
  };
  const bar = createColorBar({ label: t("Numbers of the votes and of the capsules"), kind: "signed" });
  let response = null;
  const slider = createSlider({ label: t("Primary capsule"), min: 1, max: 1, step: 1, value: 1, onInput: (value) => onChoose(capsuleAt(value, response)) });
  const element = h("section", { class: "capsule-detail", "aria-label": t("One primary capsule") },
    loop,
    h("div", { class: "capsule-seen" }, seen.element, place, slider.element),
    h("div", { class: "vote-box" },
      h("div", { class: "vote-table" }, Object.values(columns).map((each) => each.element), h("div", { class: "both-bar" }, bar.element)), lengths));

  // iteration: from 0
  function show(image, next, capsule, iteration) {
    response = next;
    const { field_centers: { first, step, size }, best, history } = response;
    const corner = (index) => Math.round(first + index * step - (size - 1) / 2);
    const [top, left] = [corner(capsule.row), corner(capsule.column)];
    seen.draw(ink(image.slice(top, top + size).map((line) => line.slice(left, left + size))));
    const [number, count] = [capsuleNumber(capsule, response), response.primary.flat(2).length];
    slider.set(number, [1, count]);
    const drawn = Math.max(0, iteration - 1); // the iteration of the last product: what stands side by side is multiplied
    const [poses, shares] = [history[drawn], capsule.shares[iteration]];
    loop.textContent = describeIteration(iteration, history.length, shares.length);
    place.textContent = describePlace(response, capsule, iteration);
    const rowClass = (digit) => (digit === best ? "best" : "");
    const largest = voteScale(capsule, response);
    bar.show(numberText(-largest, 1), "0", numberText(largest, 1));
    columns.names.show(t("digit"), texts(poses.map((_, digit) => String(digit)), 12, "middle", rowClass));
    columns.votes.show(t("its vote"), cells(capsule.votes, t("vote"), largest));
    columns.capsules.show(t("digit's capsule, iteration {index}", { index: drawn + 1 }), cells(poses, t("capsule"), largest));
    // Rounded first, so that the numbers that are shown add up.
    const products = poses.map((_, digit) => capsule.products.slice(0, iteration).map((row) => rounded(row[digit])));
    const added = products.map((numbers) => rounded(numbers.reduce((sum, value) => sum + value, 0)));
    columns.terms.show(iteration ? t("products: {terms}", { terms: termNames(iteration) }) : t("products: none yet"), texts(products.map(sumText), 100, "end", rowClass));
    columns.sums.show(t("sum"), bars(BAR + 40, added, [Math.min(0, ...added), Math.max(0, ...added)], (value) => numberText(value, 2), rowClass));
    columns.shares.show(t("sends"), bars(BAR + 34, shares, [0, 1], (value) => `${Math.round(value * 100)} %`, rowClass));
  }

  return { element, show };
}

// The number that has the full color, for votes and capsules alike: the largest of both.
export function voteScale({ votes }, { history }) {
  return Math.max(...[votes, history].flat(3).map(Math.abs), 1e-9);
}

// What happens in an iteration, from 0, as the table shows it.
export function describeIteration(iteration, iterations, digits) {
  const values = { index: iteration + 1, last: iteration, iterations, equal: Math.round(100 / digits), terms: termNames(iteration) };
  return iteration === 0
    ? t("Iteration 1 of {iterations}: nothing is summed yet, so each primary capsule sends {equal} % to each digit. All votes with these shares make the digit capsules that are drawn, those of iteration 1.", values)
    : t("Iteration {index} of {iterations}: the scalar products of its vote with the digit's capsule are summed ({terms}), and a softmax of the sums gives what it sends now. The digit capsules that are drawn are those of iteration {last}, as in the last product. A capsule near 0 adds about 0, however strong the vote.", values);
}

// Which capsule it is, and how what it sends to the answer fits to the square of its position in the map of the answer.
export function describePlace(response, capsule, iteration) {
  const { best, couplings, primary } = response;
  const { row, type } = capsule;
  const at = (grid) => grid[row][capsule.column];
  const share = capsule.shares[iteration][best];
  const square = at(couplings[iteration][best]) / at(couplings[0][best]); // a mean, weighted by length
  const total = primary.reduce((sum, grid) => sum + at(grid), 0);
  const own = at(primary[type]);
  const times = share * capsule.votes.length;
  const others = (square * total - times * own) / (total - own);
  return t("Primary capsule {number} of {count}: type {type} at row {row}, column {column}, length {length}. In iteration {index} it sends {share} % to {best}, {times} times an equal share. The other {rest} types at its position send {others} times on average; a square of the map is the mean of all {types}, here {square} times.", {
    number: capsuleNumber(capsule, response), count: primary.flat(2).length, row: row + 1, column: capsule.column + 1, type: type + 1, length: capsule.length.toFixed(2),
    index: iteration + 1, share: Math.round(share * 100), best, times: times.toFixed(1), rest: primary.length - 1, others: Math.max(0, others).toFixed(1), types: primary.length, square: square.toFixed(1),
  });
}

// 2 -> "iteration 1 + iteration 2"
function termNames(count) {
  return Array.from({ length: count }, (_, index) => t("iteration {index}", { index: index + 1 })).join(" + ");
}

function column(kind, title, width) {
  const [caption, content] = [h("figcaption", {}, title), svg("g")];
  const picture = svg("svg", { viewBox: `0 0 ${width} ${10 * ROW}`, preserveAspectRatio: "none", width, height: 10 * ROW, role: "img", "aria-label": title }, content);
  return {
    element: h("figure", { class: kind }, caption, picture),
    show(text, marks) {
      caption.textContent = text;
      picture.setAttribute("aria-label", text);
      content.replaceChildren(...marks);
    },
  };
}

// To two decimals; never -0.
function rounded(value) {
  return Math.round(value * 100) / 100 + 0;
}

// [0.5, -0.25] -> "0.50 − 0.25"
function sumText([first = null, ...others]) {
  if (first === null) return "–";
  return [numberText(first, 2), ...others.map((value) => `${value < 0 ? "−" : "+"} ${Math.abs(value).toFixed(2)}`)].join(" ");
}

// Numbers above zero in one color, below in the other; `largest` has the full color.
function cells(matrix, name, largest) {
  return matrix.flatMap((numbers, digit) => numbers.map((value, index) =>
    svg("rect", {
      x: index * CELL, y: digit * ROW, width: CELL - 1, height: ROW - GAP,
      fill: `color-mix(in srgb, var(--${value > 0 ? "more" : "less"}) ${Math.round((100 * Math.abs(value)) / largest)}%, var(--track))`,
    }, svg("title", {}, `${digit}: ${name} ${index + 1} = ${numberText(value, 3)}`))));
}

function texts(list, x, anchor, rowClass) {
  return list.map((text, digit) => svg("text", { x, y: digit * ROW + 12, "text-anchor": anchor, class: rowClass(digit) }, text));
}

// From zero, to the right for values above it and to the left for values below.
function bars(right, values, [low, high], format, rowClass) {
  const x = (value) => ((value - low) / (high - low || 1)) * BAR;
  return [
    svg("line", { class: "zero", x1: x(0), x2: x(0), y1: 0, y2: values.length * ROW - GAP }),
    ...values.map((value, digit) => svg("rect", {
      x: x(Math.min(0, value)), y: digit * ROW + 3, width: Math.abs(x(value) - x(0)), height: ROW - GAP - 6, class: `bar ${rowClass(digit)}`,
    })),
    ...texts(values.map(format), right, "end", rowClass),
  ];
}

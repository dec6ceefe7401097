// One primary capsule: what it sees, its vote for each digit beside the digit's capsule, and how much it sends.

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
  const [votes, capsules, terms, sums, shares] = Array.from({ length: 5 }, () => svg("g"));
  const names = Array.from({ length: 3 }, () => svg("g"));
  const bar = {
    votes: createColorBar({ label: t("Numbers of the votes"), kind: "signed" }), capsules: createColorBar({ label: t("Numbers of the capsules"), kind: "signed" }),
  };
  let response = null;
  const slider = createSlider({ label: t("Primary capsule"), min: 1, max: 1, step: 1, value: 1, onInput: (value) => onChoose(capsuleAt(value, response)) });
  // The digits stand once in front of the row of columns, and where the columns do not fit in one row, before each row.
  const digits = (index) => column(index ? "names again" : "names", t("digit"), names[index], 30);
  const element = h("section", { class: "capsule-detail", "aria-label": t("One primary capsule") },
    loop,
    h("div", { class: "capsule-seen" }, seen.element, place, slider.element),
    h("div", { class: "vote-box" }, h("div", { class: "vote-table" },
      digits(0), column("cells", t("its vote"), votes, 16 * CELL, bar.votes),
      digits(1), column("cells", t("digit's capsule"), capsules, 16 * CELL, bar.capsules),
      digits(2), column("terms", t("scalar products"), terms, 100), column("sums", t("sum"), sums, BAR + 40), column("shares", t("sends"), shares, BAR + 34))));

  function show(image, next, capsule) {
    response = next;
    const { field_centers: { first, step, size }, best, poses } = response;
    const corner = (index) => Math.round(first + index * step - (size - 1) / 2);
    const [top, left] = [corner(capsule.row), corner(capsule.column)];
    seen.draw(ink(image.slice(top, top + size).map((line) => line.slice(left, left + size))));
    const [number, count] = [capsuleNumber(capsule, response), response.primary.flat(2).length];
    slider.set(number, [1, count]);
    const equal = Math.round(100 / capsule.shares.length);
    loop.textContent = t("Iteration 1 of {iterations}: each primary capsule sends {equal} % to each digit, and all votes together make the digit capsules. The scalar product of each vote and its digit's capsule is added to a sum, and a softmax of the sums gives the shares of the next iteration. A capsule near 0 adds about 0, however strong the vote.",
      { iterations: capsule.products.length, equal });
    place.textContent = t("Primary capsule {number} of {count}: type {type} at row {row}, column {column}, length {length}. It sends {share} % to {best}; an equal share would be {equal} %.", {
      number, count, row: capsule.row + 1, column: capsule.column + 1, type: capsule.type + 1, length: capsule.length.toFixed(2),
      share: Math.round(capsule.shares[best] * 100), best, equal,
    });
    const rowClass = (digit) => (digit === best ? "best" : "");
    for (const each of names) each.replaceChildren(...texts(poses.map((_, digit) => String(digit)), 12, "middle", rowClass));
    votes.replaceChildren(...cells(capsule.votes, t("vote"), bar.votes));
    capsules.replaceChildren(...cells(poses, t("capsule"), bar.capsules));
    // Rounded first, so that the numbers that are shown add up. The last products would make the shares of one more iteration.
    const products = poses.map((_, digit) => capsule.products.slice(0, -1).map((row) => rounded(row[digit])));
    const added = products.map((numbers) => rounded(numbers.reduce((sum, value) => sum + value, 0)));
    terms.replaceChildren(...texts(products.map(sumText), 100, "end", rowClass));
    sums.replaceChildren(...bars(BAR + 40, added, [Math.min(0, ...added), Math.max(0, ...added)], (value) => numberText(value, 2), rowClass));
    shares.replaceChildren(...bars(BAR + 34, capsule.shares, [0, 1], (value) => `${Math.round(value * 100)} %`, rowClass));
  }

  return { element, show };
}

function column(kind, title, content, width, bar = null) {
  return h("figure", { class: kind }, h("figcaption", {}, title),
    svg("svg", { viewBox: `0 0 ${width} ${10 * ROW}`, preserveAspectRatio: "none", width, height: 10 * ROW, role: "img", "aria-label": title }, content), bar?.element);
}

// To two decimals; never -0.
function rounded(value) {
  return Math.round(value * 100) / 100 + 0;
}

// [0.5, -0.25] -> "0.50 − 0.25"
function sumText([first, ...others]) {
  return [numberText(first, 2), ...others.map((value) => `${value < 0 ? "−" : "+"} ${Math.abs(value).toFixed(2)}`)].join(" ");
}

// Numbers above zero in one color, below in the other; the largest of all has the full color.
function cells(matrix, name, bar) {
  const largest = Math.max(...matrix.flat().map(Math.abs), 1e-9);
  bar.show(numberText(-largest, 1), "0", numberText(largest, 1));
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

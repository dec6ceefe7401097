// One primary capsule: what it sees, its vote for each digit beside the digit's capsule, and how much it sends.

import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { numberText } from "../core/scale.js";
import { createImage, ink } from "./canvas_image.js";
import { createColorBar } from "./color_bar.js";
import { createSlider } from "./slider.js";

const [CELL, ROW, GAP, BAR] = [10, 18, 3, 40];

// onChoose({ row, column, type }) when the visitor moves the slider
export function createCapsuleDetail({ onChoose }) {
  const seen = createImage({ label: t("What this capsule sees"), resolution: 168, smooth: false, kind: "field-crop" });
  const place = h("p", { class: "small", role: "status" });
  const [names, votes, capsules, products, shares] = Array.from({ length: 5 }, () => svg("g"));
  const bar = {
    votes: createColorBar({ label: t("Numbers of the votes"), kind: "signed" }), capsules: createColorBar({ label: t("Numbers of the capsules"), kind: "signed" }),
  };
  const slider = createSlider({ label: t("Primary capsule"), min: 1, max: 1, step: 1, value: 1, onInput: (value) => onChoose(placeOf(value - 1)) });
  const element = h("section", { class: "capsule-detail", "aria-label": t("One primary capsule") },
    h("div", { class: "capsule-seen" }, seen.element, place, slider.element),
    h("div", { class: "vote-table" },
      column(t("digit"), names, 24), column(t("its vote"), votes, 16 * CELL, bar.votes), column(t("digit's capsule"), capsules, 16 * CELL, bar.capsules),
      column(t("scalar product"), products, BAR + 40), column(t("sends"), shares, BAR + 34),
      h("p", { class: "soft small" }, t("A vote counts by its scalar product with the digit's capsule: a capsule near 0 gives about 0, however strong the vote."))));
  let grid = [1, 1, 1];

  function placeOf(index) {
    const [, columns, types] = grid;
    return { row: Math.floor(index / (columns * types)), column: Math.floor(index / types) % columns, type: index % types };
  }

  function show(image, response, capsule) {
    const { field_centers: { first, step, size }, best, poses } = response;
    const [rows, columns] = response.grid;
    grid = [rows, columns, response.primary.length];
    const corner = (index) => Math.round(first + index * step - (size - 1) / 2);
    const [top, left] = [corner(capsule.row), corner(capsule.column)];
    seen.draw(ink(image.slice(top, top + size).map((line) => line.slice(left, left + size))));
    slider.set(1 + (capsule.row * columns + capsule.column) * grid[2] + capsule.type, [1, rows * columns * grid[2]]);
    place.textContent = t("Row {row}, column {column}, type {type}: length {length}. It sends {share} % to {best}; an equal share would be {equal} %.", {
      row: capsule.row + 1, column: capsule.column + 1, type: capsule.type + 1, length: capsule.length.toFixed(2),
      share: Math.round(capsule.shares[best] * 100), best, equal: Math.round(100 / capsule.shares.length),
    });
    const rowClass = (digit) => (digit === best ? "best" : "");
    names.replaceChildren(...poses.map((_, digit) => svg("text", { x: 12, y: digit * ROW + 12, "text-anchor": "middle", class: rowClass(digit) }, String(digit))));
    votes.replaceChildren(...cells(capsule.votes, t("vote"), bar.votes));
    capsules.replaceChildren(...cells(poses, t("capsule"), bar.capsules));
    products.replaceChildren(...bars(BAR + 40, capsule.products, Math.max(...capsule.products.map(Math.abs), 1e-9), (value) => numberText(value, 2).replace("−0.00", "0.00"), rowClass));
    shares.replaceChildren(...bars(BAR + 34, capsule.shares, 1, (value) => `${Math.round(value * 100)} %`, rowClass));
  }

  return { element, show };
}

function column(title, content, width, bar = null) {
  return h("figure", {}, h("figcaption", {}, title),
    svg("svg", { viewBox: `0 0 ${width} ${10 * ROW}`, preserveAspectRatio: "none", width, height: 10 * ROW, role: "img", "aria-label": title }, content), bar?.element);
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

function bars(right, values, largest, format, rowClass) {
  return values.flatMap((value, digit) => [
    svg("rect", { x: 0, y: digit * ROW + 3, width: (Math.abs(value) / largest) * BAR, height: ROW - GAP - 6, class: `bar ${rowClass(digit)}` }),
    svg("text", { x: right, y: digit * ROW + 12, "text-anchor": "end", class: rowClass(digit) }, format(value)),
  ]);
}

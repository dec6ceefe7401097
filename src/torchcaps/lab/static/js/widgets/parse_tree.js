// What was found as a tree: groups, wholes, parts; art draws parts, see shape_art.js. Pointing at a node calls onPoint(kind, index), leaving it onPoint(null).

import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { degrees, scaleOf } from "../core/similarity.js";

export function createParseTree(art, onPoint) {
  const element = h("div", { class: "tree-box" });

  function node(level, index, name, detail, mark, children) {
    const row = h("div", { class: `node ${level}` }, mark, h("b", {}, name), h("span", {}, detail));
    row.addEventListener("pointerenter", () => onPoint(level, index));
    row.addEventListener("pointerleave", () => onPoint(null, -1));
    return h("li", {}, row, children.length ? h("ul", {}, children) : null);
  }

  function partNode(parts, index) {
    const { kind, name, presence, pose } = parts[index];
    const icon = svg("svg", { viewBox: "-1.3 -1.3 2.6 2.6", "aria-hidden": "true" }, svg("g", { transform: "scale(1 -1)" }, art.outline(kind)));
    return node("part", index, t(name), t("presence {presence}, {angle}°, size {size}", numbers(presence, pose)), icon, []);
  }

  function show({ parts, wholes, groups }) {
    const indices = (list) => list.map((_, index) => index);
    const wholeNode = (index) => {
      const { name, presence, pose } = wholes[index];
      const members = indices(parts).filter((part) => parts[part].whole === index);
      return node("whole", index, t(name), t("presence {presence}, turned by {angle}°, size {size}", numbers(presence, pose)), null,
        members.map((part) => partNode(parts, part)));
    };
    const groupNode = (index) => {
      const members = indices(wholes).filter((whole) => wholes[whole].group === index);
      return node("group", index, t(groups[index].name), t("presence {presence}", { presence: groups[index].presence.toFixed(2) }), null, members.map(wholeNode));
    };
    const used = new Set(wholes.map((whole) => whole.group));
    const loose = indices(parts).filter((index) => parts[index].whole < 0);
    const tops = [
      ...indices(groups).filter((index) => used.has(index)).map(groupNode),
      ...indices(wholes).filter((index) => wholes[index].group < 0).map(wholeNode),
      ...(loose.length ? [node("rest", -1, t("loose parts"), "", null, loose.map((index) => partNode(parts, index)))] : []),
    ];
    element.replaceChildren(tops.length ? h("ul", { class: "tree", "aria-label": t("Parse tree") }, tops)
      : h("p", { class: "soft small" }, t("Nothing was found.")));
  }

  return { element, show };
}

// How sure the network is, and the pose: the size is half the width, where the board is 2 wide.
function numbers(presence, pose) {
  return { presence: presence.toFixed(2), angle: Math.round(degrees(pose)).toString().replace("-", "−"), size: scaleOf(pose).toFixed(2) };
}

// What was found as a tree: groups, wholes, parts; art draws parts, see shape_art.js. Pointing at a node or focusing it
// calls onPoint(kind, index), leaving it onPoint(null).

import { h, svg } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { degrees, scaleOf, turnText } from "../core/similarity.js";

export function createParseTree(art, onPoint) {
  const element = h("div", { class: "tree-box" });
  let form = null; // which nodes are shown
  const details = new Map(); // level and index -> the numbers of a node

  function node(level, index, name, detail, mark, children) {
    const numbers = h("span", {}, detail);
    details.set(level + index, numbers);
    const row = h("button", { type: "button", class: `node ${level}` }, mark, h("b", {}, name), numbers);
    for (const event of ["pointerenter", "focus"]) row.addEventListener(event, () => onPoint(level, index));
    for (const event of ["pointerleave", "blur"]) row.addEventListener(event, () => onPoint(null, -1));
    return h("li", {}, row, children.length ? h("ul", {}, children) : null);
  }

  function partNode(parts, index) {
    const { kind, name } = parts[index];
    const icon = svg("svg", { viewBox: "-1.3 -1.3 2.6 2.6", "aria-hidden": "true" }, svg("g", { transform: "scale(1 -1)" }, art.outline(kind)));
    return node("part", index, t(name), describe(parts[index]), icon, []);
  }

  function show({ parts, wholes, groups }) {
    const indices = (list) => list.map((_, index) => index);
    const fromLeft = indices(wholes).sort((one, two) => wholes[one].pose[2] - wholes[two].pose[2]);
    // During a drag the nodes mostly stay, and only their numbers change: much less to lay out.
    const next = JSON.stringify([
      fromLeft, parts.map(({ kind, whole }) => [kind, whole]), wholes.map(({ kind, group }) => [kind, group]), groups.map(({ kind }) => kind),
    ]);
    if (next === form) {
      for (const [level, list, text] of [["part", parts, describe], ["whole", wholes, describe], ["group", groups, presenceOf]]) {
        list.forEach((each, index) => details.get(level + index)?.replaceChildren(text(each))); // a group without wholes has no node
      }
      return;
    }
    form = next;
    details.clear();
    const wholeNode = (index) => {
      const members = indices(parts).filter((part) => parts[part].whole === index);
      return node("whole", index, t(wholes[index].name), describe(wholes[index]), null, members.map((part) => partNode(parts, part)));
    };
    const groupNode = (index) => {
      const members = fromLeft.filter((whole) => wholes[whole].group === index);
      return node("group", index, t(groups[index].name), presenceOf(groups[index]), null, members.map(wholeNode));
    };
    const used = new Set(wholes.map((whole) => whole.group));
    const loose = indices(parts).filter((index) => parts[index].whole < 0);
    const tops = [
      ...indices(groups).filter((index) => used.has(index)).map(groupNode),
      ...fromLeft.filter((index) => wholes[index].group < 0).map(wholeNode),
      ...(loose.length ? [node("rest", -1, t("loose parts"), "", null, loose.map((index) => partNode(parts, index)))] : []),
    ];
    element.replaceChildren(tops.length ? h("ul", { class: "tree", "aria-label": t("Parse tree") }, tops)
      : h("p", { class: "soft small" }, t("Nothing was found.")));
  }

  return { element, show };
}

// How sure the network is, and the pose: angle and size are those of the sliders.
function describe({ presence, pose }) {
  return t("presence {presence}, {angle}, size {size}", { presence: presence.toFixed(2), angle: turnText(degrees(pose)), size: scaleOf(pose).toFixed(2) });
}

function presenceOf({ presence }) {
  return t("presence {presence}", { presence: presence.toFixed(2) });
}

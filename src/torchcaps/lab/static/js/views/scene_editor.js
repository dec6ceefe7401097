// A scene of one world: compose it, and see what the network reads in it. Used by views/parts.js.

import { getCached, latestOnly } from "../core/api.js";
import { button, card, h, svg } from "../core/dom.js";
import { createNotice } from "../core/feedback.js";
import { t } from "../core/i18n.js";
import { between, degrees, matrix, scaleOf, turnText } from "../core/similarity.js";
import { createImage, figure, grayBytes } from "../widgets/canvas_image.js";
import { createParseTree } from "../widgets/parse_tree.js";
import { createBoard, partsOf } from "../widgets/scene_board.js";
import { createArt } from "../widgets/shape_art.js";
import { createSlider } from "../widgets/slider.js";
import { createWholeCounts } from "../widgets/whole_counts.js";
import { createSceneScores } from "./scene_scores.js";

const MAX_PARTS = 40;
const SCRAMBLE_TIME = 900; // milliseconds
// Kind, x, y, angle and scale of each object, and which of its wrong forms it has if it is scrambled; the first scene of
// a world is the one it opens with. The parts of this face are found, but no whole, while the CNN names a face.
const PRESETS = {
  shapes: {
    "House and boat": "0_-0.48_0_0_0.5~1_0.42_0_0_0.5",
    "A tree": "4_0_0_0_0.6",
    "Three wholes": "4_-0.58_0.42_20_0.4~2_0.5_0.5_-35_0.4~7_0.05_-0.5_160_0.45",
    Overlapping: "6_-0.12_0.12_15_0.6~0_0.28_-0.2_-20_0.55",
  },
  faces: {
    "A scrambled face": "0_0_0_-40_0.7_0",
    "Face and bicycle": "0_-0.46_0.3_0_0.5~1_0.45_-0.3_0_0.5",
    "Same parts": "0_-0.5_0.48_15_0.44~1_0.5_0.48_-10_0.44~2_-0.5_-0.48_0_0.44~3_0.5_-0.48_30_0.44",
  },
};
const SINGLE = { angle: 0, scale: 0.3 };

// panel: the element to fill; about: what the world has; scene: the text of a scene, or null; onScene(text) after every
// change
export async function createSceneEditor(panel, world, about, scene, onScene) {
  const { parts: kinds, wholes: types, groups } = await getCached(`api/shapes?world=${world}`);
  const presets = PRESETS[world];
  const art = createArt(world);
  let objects = [];
  let response = null;
  let animation = null;

  const board = createBoard({
    label: t("Scene"), art, onChange: changed, onSelect: updateControls,
    onRemove: (object) => setObjects(objects.filter((each) => each !== object)),
  });
  const tree = createParseTree(art, point);
  const input = figure(createImage({ label: t("What the network sees"), resolution: 192, smooth: false }), t("Input: {size} × {size} pixels", { size: 96 }));
  const angle = createSlider({ label: t("Angle"), min: -180, max: 180, step: 1, value: 0, format: turnText, onInput: edit });
  const scale = createSlider({ label: t("Size"), min: 0.2, max: 0.9, step: 0.01, value: 0.45, format: (value) => value.toFixed(2), onInput: edit });
  const scrambleButton = button(t("Scramble"), scramble, "main");
  scrambleButton.dataset.tour = "scramble";
  const removeButton = button(t("Remove"), () => setObjects(objects.filter((each) => each !== board.selected)));
  const hint = h("p", { class: "soft small" });
  const looseText = h("p", { class: "soft small", hidden: true });
  const scores = createSceneScores(types, groups, listText);
  const counts = createWholeCounts(world);

  panel.append(
    scores.answers,
    counts.rates,
    card("w8 wide-first scene-card", t("Scene"), about,
      h("div", { class: "scene-row" },
        h("div", { class: "shelf-column" },
          h("div", { class: "row" }, scrambleButton, button(t("Clear"), () => setObjects([]))),
          h("div", { class: "shelf" },
            types.map((type, kind) => shelfButton(t(type.name), type.parts, () => newWhole(kind))),
            kinds.map((shape, kind) => shelfButton(t(shape.name), [{ kind, pose: [0.8, 0, 0, 0] }], () => newPart(kind)))),
          h("p", { class: "soft small" }, t("Drag shapes onto the board. Dark marks show which way up a shape is.")),
          h("div", { class: "seen-input" }, input.element)),
        h("div", { class: "board-column" },
          h("div", { class: "legend" },
            h("span", { class: "key found-key" }, t("part that was found")),
            h("span", { class: "key vote-key" }, t("to the middle of the whole that it predicts")),
            h("span", { class: "key loose-key" }, t("part of no whole")),
            h("span", {}, t("Dots, angles and sizes close together: the parts agree."))),
          board.element, looseText,
          h("div", { class: "pair" }, angle.element, scale.element), h("div", { class: "row selected" }, hint, removeButton),
          h("div", { class: "row presets" }, h("span", { class: "small soft" }, t("Scenes")),
            Object.entries(presets).map(([name, text]) => button(t(name), () => setObjects(parseScene(text)))))))),
    h("div", { class: "w4 wide-first stack" },
      card("result", t("What the capsules found"), t("point at a part: the whole that it predicts, dashed"), tree.element),
      scores.element),
    counts.networks,
  );

  const query = latestOnly("api/parts", panel, (next) => {
    response = next;
    input.draw(grayBytes(next.pixels, next.size));
    tree.show(next);
    showFound();
    scores.show(next, objects);
  }, createNotice(panel), 2);

  function shelfButton(name, parts, make) {
    const element = h("button", { type: "button", class: "shelf-item", "aria-label": t("Add: {name}", { name }) }, art.thumbnail(parts), h("span", {}, name));
    let carried = null; // the object that is dragged onto the board
    let start = null;
    element.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      start = [event.clientX, event.clientY];
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener("pointermove", (event) => {
      if (!start) return;
      if (!carried && Math.hypot(event.clientX - start[0], event.clientY - start[1]) > 8) carried = add(make());
      if (!carried) return;
      const [x, y] = board.place(event);
      Object.assign(carried, { x: Math.max(-1, Math.min(1, x)), y: Math.max(-1, Math.min(1, y)) });
      board.redraw();
      changed();
    });
    element.addEventListener("pointerup", () => { start = null; });
    element.addEventListener("pointercancel", () => { start = null; carried = null; });
    element.addEventListener("click", () => { // also by keyboard; a click ends a drag too
      if (!carried) add(make());
      carried = null;
    });
    return element;
  }

  function newWhole(kind, at = freePlace()) {
    const { name, parts } = types[kind];
    return { kind, name: t(name), parts: parts.map((part) => ({ ...part })), angle: 0, scale: 0.42, wrong: -1, ...at };
  }

  function newPart(kind, at = freePlace()) {
    return { kind: -1 - kind, name: t(kinds[kind].name), parts: [{ kind, pose: [1, 0, 0, 0] }], ...SINGLE, wrong: -1, ...at };
  }

  // The place on a coarse grid that is farthest from all objects.
  function freePlace() {
    const grid = [-0.5, 0, 0.5].flatMap((y) => [-0.5, 0, 0.5].map((x) => ({ x, y })));
    const room = ({ x, y }) => Math.min(2, ...objects.map((object) => Math.hypot(object.x - x, object.y - y)));
    return grid.reduce((best, next) => (room(next) > room(best) ? next : best), { x: 0, y: 0 });
  }

  function add(object) {
    if (partsOf(objects).length + object.parts.length > MAX_PARTS) return object;
    setObjects([...objects, object]);
    board.select(object);
    return object;
  }

  function setObjects(next) {
    cancelAnimationFrame(animation);
    objects = next;
    board.load(objects);
    updateControls();
    changed();
  }

  function changed() {
    if (board.selected) {
      angle.set(board.selected.angle);
      scale.set(board.selected.scale);
    }
    onScene(sceneText(objects));
    query({
      world,
      parts: partsOf(objects).map(({ kind, pose }) => ({
        kind, x: rounded(pose[2]), y: rounded(pose[3]), angle: rounded(degrees(pose)), scale: Math.max(0.02, rounded(scaleOf(pose))),
      })),
    });
  }

  function edit() {
    if (!board.selected) return;
    Object.assign(board.selected, { angle: angle.value, scale: scale.value });
    board.redraw();
    changed();
  }

  function updateControls() {
    const object = board.selected;
    for (const slider of [angle, scale]) slider.enable(Boolean(object));
    if (object) {
      angle.set(object.angle);
      scale.set(object.scale);
    }
    removeButton.hidden = !object;
    const targets = scrambled();
    scrambleButton.disabled = !targets.length;
    scrambleButton.textContent = targets.some((each) => each.wrong < 0) ? t("Scramble") : t("Put together");
    hint.textContent = object ? t("Selected: {name}. Drag its knob to turn and scale it.", { name: object.name }) : t("Select a shape to turn or scale it.");
  }

  // The selected whole, or all of them.
  function scrambled() {
    const wholes = objects.filter((object) => object.kind >= 0);
    return wholes.includes(board.selected) ? [board.selected] : wholes;
  }

  function scramble() {
    const targets = scrambled();
    const apart = targets.some((object) => object.wrong < 0);
    const moves = targets.map((object) => {
      const type = types[object.kind];
      object.turn = ((object.turn ?? -1) + (apart ? 1 : 0)) % type.scrambled.length;
      object.wrong = apart ? object.turn : -1;
      return { object, from: object.parts.map((part) => part.pose), to: (apart ? type.scrambled[object.turn] : type.parts).map((part) => part.pose) };
    });
    updateControls();
    run(moves);
  }

  function run(moves) {
    cancelAnimationFrame(animation);
    const begin = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const tick = (now) => {
      const share = still ? 1 : Math.max(0, Math.min(1, (now - begin) / SCRAMBLE_TIME));
      for (const { object, from, to } of moves) {
        object.parts.forEach((part, index) => { part.pose = share === 1 ? to[index] : between(from[index], to[index], share); });
      }
      board.redraw();
      changed();
      if (share < 1) animation = requestAnimationFrame(tick);
    };
    tick(begin);
  }

  // A loose part predicts every type of whole; shown is the one that the nearest part of the scene was taken from.
  function typeNear([, , x, y]) {
    const all = objects.flatMap((object) => partsOf([object]).map(({ pose }) => [Math.hypot(pose[2] - x, pose[3] - y), object.kind]));
    return all.reduce((best, next) => (next[0] < best[0] ? next : best), [Infinity, -1])[1];
  }

  function showFound() {
    const { parts, wholes } = response;
    const predicted = new Set(); // types that loose parts point to
    const votes = parts.flatMap((part, index) => {
      const kind = part.whole < 0 ? typeNear(part.pose) : wholes[part.whole].kind;
      if (kind < 0) return [];
      if (part.whole < 0) predicted.add(kind);
      const [x1, y1, x2, y2] = [part.pose[2], part.pose[3], part.votes[kind][2], part.votes[kind][3]];
      return svg("g", { class: "vote", "data-part": index, "data-whole": part.whole },
        svg("g", { transform: matrix(part.votes[kind]) }, art.wholeOutline(types[kind].parts)),
        svg("line", { x1, y1, x2, y2 }), svg("circle", { cx: x2, cy: y2, r: 0.022 }));
    });
    looseText.hidden = !predicted.size;
    looseText.textContent = t("Lines from parts of no whole: to where each of them predicts the whole that it was taken from: {names}.", { names: listText([...predicted].map((kind) => t(types[kind].name))) });
    const shown = parts.map((part, index) => art.outline(part.kind, {
      class: part.whole < 0 ? "seen loose" : "seen", transform: matrix(part.pose), "data-part": index, "data-whole": part.whole,
    }));
    board.overlay([...votes, ...shown], wholes.map((whole) => ({ at: labelPlace(whole), text: t(whole.name) })));
  }

  // Below the whole.
  function labelPlace({ pose }) {
    return [pose[2], pose[3] - scaleOf(pose) - 0.06];
  }

  function point(level, index) {
    const chosen = (element) => {
      if (level === "part") return element.dataset.part === String(index);
      if (level === "whole") return element.dataset.whole === String(index);
      if (level === "group") return response.wholes[element.dataset.whole]?.group === index;
      return level === "rest" && element.dataset.whole === "-1";
    };
    for (const element of board.element.querySelectorAll("[data-part]")) {
      element.classList.toggle("dim", level !== null && !chosen(element));
      element.classList.toggle("pointed", level === "part" && chosen(element));
    }
  }

  function parseScene(text) {
    return text.split("~").filter(Boolean).flatMap((entry) => {
      const [kind, x, y, turn, size, wrong = -1] = entry.split("_").map(Number);
      if (![kind, x, y, turn, size].every(Number.isFinite) || kind >= types.length || kind < -kinds.length) return [];
      const at = { x, y, angle: turn, scale: Math.max(0.2, Math.min(0.9, size)) };
      if (kind < 0) return [newPart(-1 - kind, at)];
      const object = newWhole(kind, at);
      const places = types[kind].scrambled[wrong];
      return [places ? { ...object, wrong, turn: wrong, parts: places.map((part) => ({ ...part })) } : object];
    }).slice(0, 20);
  }

  setObjects(parseScene(scene ?? Object.values(presets)[0]));
  return {
    hide: () => cancelAnimationFrame(animation),
    get scene() {
      return sceneText(objects);
    },
    exports: () => response && {
      table: [["level", "name", "presence", "x", "y", "angle", "size", "belongs_to"],
        ...response.groups.map((group) => exportRow("group", group, "")),
        ...response.wholes.map((whole) => exportRow("whole", whole, response.groups[whole.group]?.name ?? "")),
        ...response.parts.map((part) => exportRow("part", part, response.wholes[part.whole]?.name ?? ""))],
      data: { world, scene: sceneText(objects), ...response },
    },
  };
}

function sceneText(objects) {
  return objects.map(({ kind, x, y, angle, scale, wrong }) =>
    [kind, rounded(x), rounded(y), angle, rounded(scale), ...(wrong < 0 ? [] : [wrong])].join("_")).join("~");
}

function exportRow(level, { name, presence, pose }, owner) {
  return [level, name, presence, pose[2], pose[3], rounded(degrees(pose)), rounded(scaleOf(pose)), owner];
}

function rounded(value) {
  return Number(value.toFixed(3));
}

function listText(names) {
  if (names.length < 2) return names.join("");
  return t("{names} and {last}", { names: names.slice(0, -1).join(t(", ")), last: names.at(-1) });
}

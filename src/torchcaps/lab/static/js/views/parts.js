// View 5: parts and wholes, in one of two worlds.

import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { createKeeper, settingOf, settingsOf } from "../core/settings.js";
import { createChoices } from "../widgets/choices.js";
import { createSceneEditor } from "./scene_editor.js";

const WORLDS = { shapes: "Shapes", faces: "Faces" };
const HINTS = {
  shapes: "House and boat, fish and ice cream, truck and robot: each pair is made of the same parts.",
  faces: "Two eyes, a nose and a mouth make a face, a bicycle, a boat or a snowman. Scrambled, they make none of them.",
};

export async function create(stage) {
  const panels = Object.fromEntries(Object.keys(WORLDS).map((name) => [name, h("div", { class: "world", hidden: true })]));
  const editors = new Map(); // world -> promise of an editor
  let current = settingOf("parts", "world", Object.keys(WORLDS), "shapes");
  let shown = null; // the editor of the current world
  const keep = createKeeper("parts");
  const choice = createChoices({
    label: t("World"), options: Object.entries(WORLDS).map(([name, label]) => [name, t(label)]), value: current, onChange: open,
  });
  stage.append(h("div", { class: "world-choice" }, choice.element), ...Object.values(panels));

  function save(world, scene) {
    if (world === current) keep({ world, scene });
  }

  async function open(world) {
    current = world;
    for (const [name, panel] of Object.entries(panels)) panel.hidden = name !== world;
    const given = settingOf("parts", "world", [world], null) ?? (world === "shapes" && !settingsOf("parts").has("world"));
    if (!editors.has(world)) {
      const scene = given ? settingsOf("parts").get("scene") : null;
      editors.set(world, createSceneEditor(panels[world], world, t(HINTS[world]), scene, (text) => save(world, text)));
    }
    const editor = await editors.get(world);
    if (world === current) shown = editor;
    save(world, editor.scene);
  }

  await open(current);
  return {
    exports: () => shown?.exports(),
    hide: () => { for (const editor of editors.values()) editor.then(({ hide }) => hide(), () => {}); },
  };
}

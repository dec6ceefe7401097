// Opens views on first visit; a view is a module with create(stage) -> { show(), hide() }.

import { begin, end } from "./busy.js";
import { explain, get } from "./api.js";
import * as draw from "./views/draw.js";
import { currentName, listen, select } from "./tabs.js";

const LOADERS = {
  draw: async () => draw, // shown first, so fetched with the page
  tweak: () => import("./views/tweak.js"),
  overlap: () => import("./views/overlap.js"),
  votes: () => import("./views/votes.js"),
  toy: () => import("./views/toy.js"),
  clusters: () => import("./views/clusters.js"),
  attack: () => import("./views/attack.js"),
};

const opened = new Map();
let shown = null;

function open(name) {
  if (!opened.has(name)) {
    const stage = document.querySelector(`#view-${name} .stage`);
    opened.set(name, LOADERS[name]().then((module) => module.create(stage)));
  }
  return opened.get(name);
}

async function show(name) {
  select(name);
  const before = shown;
  shown = name;
  if (before && before !== name) {
    scrollTo(0, 0);
    (await open(before)).hide?.();
  }
  begin();
  try {
    await open("draw"); // it brings the image that the other views look at
    const view = await open(name);
    if (shown === name) view.show?.();
  } catch (error) {
    opened.delete(name);
    explain(error);
  }
  end();
}

async function introduce() {
  try {
    const { version, kernels, models } = await get("api/status");
    const networks = models.length === 1 ? "1 trained network" : `${models.length} trained networks`;
    document.getElementById("about").textContent = `torchcaps ${version} · ${networks} · routing kernels: ${kernels}`;
  } catch (error) {
    explain(error);
  }
}

listen(show);
show(currentName());
introduce();

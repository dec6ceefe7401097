// Opens views on first visit; a view is a module with create(stage) -> { show(), hide() }.

import { begin, end } from "./busy.js";
import { explain, get, RETRY, Silence } from "./api.js";
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
    opened.set(name, load(name, stage));
  }
  return opened.get(name);
}

// A view that could not open leaves nothing behind, so that it can be opened again.
async function load(name, stage) {
  try {
    const module = await LOADERS[name]().catch((error) => { throw error instanceof TypeError ? new Silence(name) : error; });
    return await module.create(stage);
  } catch (error) {
    opened.delete(name);
    stage.replaceChildren();
    stage.className = "stage";
    throw error;
  }
}

async function show(name) {
  select(name);
  const before = shown;
  shown = name;
  if (before && before !== name) {
    scrollTo(0, 0);
    open(before).then((view) => view.hide?.(), () => {}); // that it could not open has been told
  }
  begin();
  try {
    await open("draw"); // it brings the image that the other views look at
    const view = await open(name);
    if (shown === name) view.show?.();
  } catch (error) {
    explain(error);
    if (error instanceof Silence) setTimeout(() => shown === name && show(name), RETRY);
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

// Opens views on first use; a view is a module with create(stage) -> { show(), hide() }.

import { ConnectionError, get, reportError, RETRY_DELAY } from "./core/api.js";
import { beginBusy, endBusy } from "./core/feedback.js";
import { loadLanguage } from "./core/i18n.js";
import { connectShareButton } from "./core/share.js";
import { currentName, listen, select } from "./core/tabs.js";
import * as draw from "./views/draw.js";

// A token in the address has become a cookie; without it, history and bookmarks do not reveal it.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);

const LOADERS = {
  draw: async () => draw, // the first view, so it is loaded with the page
  tweak: () => import("./views/tweak.js"),
  overlap: () => import("./views/overlap.js"),
  votes: () => import("./views/votes.js"),
  parts: () => import("./views/parts.js"),
  toy: () => import("./views/toy.js"),
  clusters: () => import("./views/clusters.js"),
  attack: () => import("./views/attack.js"),
  compare: () => import("./views/compare.js"),
  run: () => import("./views/run.js"),
};

const views = new Map(); // name -> promise of a view
let current = null;

function open(name) {
  if (!views.has(name)) {
    const stage = document.querySelector(`#view-${name} .stage`);
    views.set(name, load(name, stage));
  }
  return views.get(name);
}

// A view that failed to open is reset, so that it can be opened again.
async function load(name, stage) {
  try {
    const module = await LOADERS[name]().catch((error) => {
      throw error instanceof TypeError ? new ConnectionError(name) : error;
    });
    return await module.create(stage);
  } catch (error) {
    views.delete(name);
    stage.replaceChildren();
    stage.className = "stage";
    throw error;
  }
}

async function show(name) {
  select(name);
  const previous = current;
  current = name;
  if (previous && previous !== name) {
    scrollTo(0, 0);
    open(previous).then((view) => view.hide?.(), () => {}); // its error has been reported already
  }
  beginBusy();
  try {
    await open("draw"); // it provides the image for the other views
    const view = await open(name);
    if (current === name) view.show?.();
  } catch (error) {
    reportError(error);
    if (error instanceof ConnectionError) setTimeout(() => current === name && show(name), RETRY_DELAY);
  }
  endBusy();
}

async function showVersion() {
  try {
    const { version, kernels, models } = await get("api/status");
    const networks = models.length === 1 ? "1 trained network" : `${models.length} trained networks`;
    document.getElementById("about").textContent = `torchcaps ${version} · ${networks} · routing kernels: ${kernels}`;
  } catch (error) {
    reportError(error);
  }
}

connectShareButton(document.getElementById("share"));
await loadLanguage();
listen(show);
show(currentName());
showVersion();

// Opens views on first use; a view is a module with create(stage) -> { show(), hide() }.

import { ConnectionError, get, reportError, RETRY_DELAY } from "./core/api.js";
import { beginBusy, endBusy } from "./core/feedback.js";
import { connectGlossary } from "./core/glossary.js";
import { connectLanguageButton, loadLanguage, t } from "./core/i18n.js";
import { hasNewSettings, showSettings } from "./core/settings.js";
import { connectShareButton, takeSharedDrawing } from "./core/share.js";
import { connectSaveMenu } from "./core/save.js";
import { currentName, listen, select } from "./core/tabs.js";
import { START } from "./tour/card.js";
import * as drawView from "./views/draw.js";

// A token in the address has become a cookie; without it, history and bookmarks do not reveal it.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);

const LOADERS = {
  draw: async () => drawView, // the first view, so it is loaded with the page
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
  if (views.has(name) && name !== "draw" && hasNewSettings(name)) close(name);
  if (!views.has(name)) {
    const stage = document.querySelector(`#view-${name} .stage`);
    views.set(name, load(name, stage));
  }
  return views.get(name);
}

// The next call of open makes the view anew.
function close(name) {
  views.get(name)?.then((view) => view.hide?.(), () => {});
  views.delete(name);
  const stage = document.querySelector(`#view-${name} .stage`);
  stage.replaceChildren();
  stage.className = "stage";
}

// A view that failed to open is reset, so that it can be opened again.
async function load(name, stage) {
  try {
    const module = await LOADERS[name]().catch((error) => {
      throw error instanceof TypeError ? new ConnectionError(name) : error;
    });
    return await module.create(stage);
  } catch (error) {
    close(name);
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
    const draw = await open("draw"); // it provides the image for the other views
    const shared = takeSharedDrawing(); // of a link that was opened while the page was open
    if (shared) draw.drawing.restore({ strokes: [], example: shared });
    const view = await open(name);
    if (current === name) {
      view.show?.();
      showSettings(name);
    }
  } catch (error) {
    reportError(error);
    if (error instanceof ConnectionError) setTimeout(() => current === name && show(name), RETRY_DELAY);
  }
  endBusy();
}

async function showVersion() {
  try {
    const { version, models } = await get("api/status");
    const networks = models.length === 1 ? t("1 trained network") : t("{count} trained networks", { count: models.length });
    document.getElementById("about").textContent = `torchcaps ${version} · ${networks}`;
  } catch (error) {
    reportError(error);
  }
}

await loadLanguage();
connectShareButton(document.getElementById("share"));
connectLanguageButton(document.getElementById("language"));
connectGlossary(document.querySelector(".glossary"));
connectSaveMenu(document.getElementById("save"), () => ({ name: current, view: views.get(current) }));
document.addEventListener(START, async () => (await import("./tour/tour.js")).startTour({ open, close, visible: () => current }));
listen(show);
show(currentName());
showVersion();

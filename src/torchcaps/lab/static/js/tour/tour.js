// Leads through the views in steps: a bar at the lower edge with back, next and stop. Escape stops it too.

import { reportError } from "../core/api.js";
import { button, h } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { keptSettings, remember } from "../core/settings.js";
import { Canceled, createActions } from "./actions.js";
import { STEPS } from "./steps.js";

let running = false;

// open(name) gives a view and close(name) forgets it, as in main.js; visible() names the view that is shown.
export async function startTour({ open, close, visible }) {
  if (running) return;
  running = true;
  let index = -1;
  let turn = 0; // counts the changes of the step: what an earlier one still does is canceled
  const { drawing } = await open("draw");
  const own = drawing.save(); // the visitor's drawing and settings come back in the end
  const settings = keptSettings();
  const restore = async () => drawing.restore(own);

  const count = h("span", { class: "count" });
  const text = h("p", { role: "status", "aria-live": "polite" });
  const back = button(t("Back"), () => go(index - 1));
  const next = button(t("Next"), () => (index === STEPS.length - 1 ? stop() : go(index + 1)), "main");
  const bar = h("section", { class: "tour", "aria-label": t("Tour") },
    h("div", { class: "tour-inner" }, text, h("div", { class: "row" }, count, back, next, button(t("Stop the tour"), stop))));

  async function go(to) {
    index = to;
    turn += 1;
    const mine = turn;
    const isCurrent = () => running && mine === turn;
    back.disabled = index === 0;
    next.textContent = index === STEPS.length - 1 ? t("Finish") : t("Next");
    count.textContent = t("{index} of {total}", { index: index + 1, total: STEPS.length });
    bar.setAttribute("aria-busy", "true");
    point(null);
    text.textContent = "…";
    const step = STEPS[index];
    try {
      const acting = step.run({ ...createActions(open, isCurrent), restore });
      await reveal(step.target, isCurrent);
      const sentence = await acting;
      if (!isCurrent()) return;
      text.textContent = sentence;
      point(step.target);
    } catch (error) {
      if (error instanceof Canceled) return;
      text.textContent = t("This step does not work here, for example because weights are missing. Go on with the next one.");
      if (!(error instanceof TypeError)) reportError(error);
    }
    bar.setAttribute("aria-busy", "false");
  }

  function stop() {
    running = false;
    document.removeEventListener("keydown", onKey);
    document.body.classList.remove("touring");
    point(null);
    bar.remove();
    if (index < STEPS.length - 1) restore();
    const stays = visible(); // what is in sight does not change
    remember("settings", { ...settings, [stays]: keptSettings()[stays] });
    for (const name of ["tweak", "votes", "overlap", "parts"]) if (name !== stays) close(name);
    document.querySelector('[role="tab"][aria-selected="true"]').focus();
  }

  function onKey(event) {
    if (event.key === "Escape") stop();
  }

  document.addEventListener("keydown", onKey);
  document.body.classList.add("touring");
  document.body.append(bar);
  next.focus({ preventScroll: true });
  await go(0);
}

// Scrolls to the target as soon as its view is shown.
async function reveal(selector, isCurrent) {
  const target = document.querySelector(selector);
  while (isCurrent() && target?.closest("[hidden]")) await new Promise((resolve) => { setTimeout(resolve, 30); });
  if (!isCurrent() || !target) return;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  target.scrollIntoView({ block: target.matches(".card") ? "center" : "start", behavior: calm ? "instant" : "smooth" });
}

function point(selector) {
  for (const element of document.querySelectorAll(".tour-target")) element.classList.remove("tour-target");
  if (selector) document.querySelector(selector)?.classList.add("tour-target");
}

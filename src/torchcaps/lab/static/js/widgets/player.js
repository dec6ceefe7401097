// Steps through a sequence, with buttons for back, play or pause, and forward, and a slider.

import { h, icon } from "../core/dom.js";
import { t } from "../core/i18n.js";

export function createPlayer({ label, delay = 700, onChange }) {
  let total = 1;
  let index = 0;
  let timer = null;

  const stepButton = (name, text, by) => h("button", {
    type: "button", class: "round", "aria-label": text, onclick: () => step(by),
  }, icon(name));
  const back = stepButton("back", t("{label}: step back", { label }), -1);
  const play = h("button", { type: "button", class: "round play", onclick: () => (timer ? stop() : start()) });
  const forward = stepButton("forward", t("{label}: step forward", { label }), 1);
  const input = h("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": label });
  const shown = h("span", { class: "count", "aria-hidden": "true" }); // the slider is announced instead
  const element = h("div", { class: "player", role: "group", "aria-label": label }, back, play, forward, input, shown);

  input.addEventListener("input", () => {
    const next = Number(input.value); // read first: stop() resets the slider
    stop();
    goTo(next);
  });

  function refresh() {
    input.max = total - 1;
    input.value = index;
    input.style.setProperty("--fill", `${total > 1 ? (index / (total - 1)) * 100 : 100}%`);
    const place = t("{index} of {total}", { index: index + 1, total });
    input.setAttribute("aria-valuetext", place);
    shown.textContent = place;
    back.disabled = index === 0;
    forward.disabled = index === total - 1;
    play.disabled = total < 2;
    play.setAttribute("aria-label", timer ? t("{label}: pause", { label }) : t("{label}: play", { label }));
    play.replaceChildren(icon(timer ? "pause" : "play"));
  }

  function goTo(next) {
    index = Math.max(0, Math.min(total - 1, next));
    refresh();
    onChange(index);
  }

  function step(by) {
    stop();
    goTo(index + by);
  }

  function start() {
    if (index === total - 1) goTo(0);
    timer = setInterval(() => {
      if (index + 1 >= total - 1) stop();
      goTo(index + 1);
    }, delay);
    refresh();
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    refresh();
  }

  refresh();
  return {
    element,
    stop,
    start,
    goTo,
    get index() {
      return index;
    },
    // Loads a new sequence and goes to step `at`, by default the same step as before.
    load(count, at = index) {
      total = count;
      goTo(at);
    },
  };
}

// Steps through a sequence: back, play or pause, forward, and a slider.

import { h, icon } from "./dom.js";

export function createPlayer({ label, delay = 700, onChange }) {
  let total = 1;
  let index = 0;
  let timer = null;

  const back = h("button", { type: "button", class: "round", "aria-label": `${label}: step back`, onclick: () => step(-1) }, icon("back"));
  const play = h("button", { type: "button", class: "round play", onclick: () => (timer ? stop() : start()) });
  const forward = h("button", { type: "button", class: "round", "aria-label": `${label}: step forward`, onclick: () => step(1) }, icon("forward"));
  const input = h("input", { type: "range", min: 0, max: 0, step: 1, value: 0, "aria-label": label });
  const shown = h("span", { class: "count", "aria-hidden": "true" }); // the slider tells it; an <output> would at every step
  const element = h("div", { class: "player", role: "group", "aria-label": label }, back, play, forward, input, shown);

  input.addEventListener("input", () => {
    const wanted = Number(input.value); // stopping puts the slider back to where we are
    stop();
    goTo(wanted);
  });

  function refresh() {
    input.max = total - 1;
    input.value = index;
    input.style.setProperty("--fill", `${total > 1 ? (index / (total - 1)) * 100 : 100}%`);
    input.setAttribute("aria-valuetext", `${index + 1} of ${total}`);
    shown.textContent = `${index + 1} of ${total}`;
    back.disabled = index === 0;
    forward.disabled = index === total - 1;
    play.disabled = total < 2;
    play.setAttribute("aria-label", `${label}: ${timer ? "pause" : "play"}`);
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
    // A new sequence; stays where it was if that still exists, or goes to `at`.
    load(count, at = index) {
      total = count;
      goTo(at);
    },
  };
}

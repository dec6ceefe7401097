// A dial for an angle, for pointer and arrow keys. Ticks mark known viewpoints, highlighted ones those of training.

import { svg } from "../core/dom.js";
import { t } from "../core/i18n.js";

const RADIUS = 82;

function at(degrees, radius) {
  const angle = ((degrees - 90) * Math.PI) / 180;
  return [Math.cos(angle) * radius, Math.sin(angle) * radius];
}

// onTurn(degrees)
export function createRing({ label, onTurn }) {
  const ticks = svg("g", { class: "ticks" });
  const hand = svg("line", { class: "hand", x1: 0, y1: 0 });
  const knob = svg("circle", { class: "knob", r: 10 });
  const number = svg("text", { class: "degrees", y: 6 });
  const element = svg("svg", {
    viewBox: "-112 -112 224 224", class: "ring", tabindex: 0, role: "slider",
    "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 359,
  }, svg("circle", { class: "path", r: RADIUS }), ticks, hand, svg("circle", { class: "hub", r: 30 }), number, knob);
  let degrees = 0;
  let dragging = false;
  let trainedViews = new Set();

  function set(next) {
    degrees = ((next % 360) + 360) % 360;
    const [x, y] = at(degrees, RADIUS);
    knob.setAttribute("cx", x);
    knob.setAttribute("cy", y);
    hand.setAttribute("x2", x);
    hand.setAttribute("y2", y);
    const whole = Math.round(degrees) % 360;
    number.textContent = `${whole}°`;
    element.setAttribute("aria-valuenow", whole);
    element.setAttribute("aria-valuetext", trainedViews.has(whole) ? t("{whole} degrees, used in training", { whole }) : t("{whole} degrees", { whole }));
  }

  function turn(next) {
    set(next);
    onTurn(degrees);
  }

  function follow(event) {
    const box = element.getBoundingClientRect();
    const x = event.clientX - box.left - box.width / 2;
    const y = event.clientY - box.top - box.height / 2;
    turn(Math.round((Math.atan2(y, x) * 180) / Math.PI + 90));
  }

  element.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    dragging = true;
    element.setPointerCapture(event.pointerId);
    follow(event);
  });
  element.addEventListener("pointermove", (event) => dragging && follow(event));
  for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, () => { dragging = false; });

  const STEPS = { ArrowRight: 5, ArrowUp: 5, ArrowLeft: -5, ArrowDown: -5, PageUp: 20, PageDown: -20 };
  element.addEventListener("keydown", (event) => {
    if (event.key in STEPS) turn(degrees + STEPS[event.key]);
    else if (event.key === "Home") turn(0);
    else if (event.key === "End") turn(359);
    else return;
    event.preventDefault();
  });

  // known and trained: lists of degrees
  function mark(known, trained) {
    trainedViews = new Set(trained);
    ticks.replaceChildren(...known.map((view) => {
      const [x1, y1] = at(view, RADIUS + 12);
      const [x2, y2] = at(view, RADIUS + 22);
      return svg("line", { x1, y1, x2, y2, class: trainedViews.has(view) ? "trained" : "" });
    }));
  }

  set(0);
  return { element, set, mark, get degrees() { return degrees; } };
}

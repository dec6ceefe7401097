// Tabs are links whose hash names the view; arrow keys, Home and End move between them.

import { t } from "./i18n.js";

const tabs = [...document.querySelectorAll('[role="tab"]')];
const names = tabs.map((tab) => tab.hash.slice(1));

export function currentName() {
  const [name] = location.hash.slice(1).split("?");
  return names.includes(name) ? name : names[0];
}

export function select(name) {
  for (const tab of tabs) {
    const selected = tab.hash === `#${name}`;
    tab.setAttribute("aria-selected", String(selected));
    tab.tabIndex = selected ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !selected;
    if (selected) {
      scrollToTab(tab);
      document.title = t("{view} · torchcaps lab", { view: tab.textContent });
    }
  }
}

// Not scrollIntoView, which would scroll the page too.
function scrollToTab(tab) {
  const list = tab.parentElement;
  list.scrollLeft = tab.offsetLeft - list.offsetLeft - (list.clientWidth - tab.offsetWidth) / 2;
}

// The skip link must not change the hash, which names the view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("stage").focus();
});

// Where tabs are hidden at an edge, the style of the list shows an arrow.
function markHidden(list) {
  list.classList.toggle("more-left", list.scrollLeft > 2);
  list.classList.toggle("more-right", list.scrollLeft + list.clientWidth < list.scrollWidth - 2);
}

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

export function listen(onChange) {
  const list = document.querySelector('[role="tablist"]');
  list.addEventListener("scroll", () => markHidden(list), { passive: true });
  new ResizeObserver(() => markHidden(list)).observe(list);
  list.addEventListener("keydown", (event) => {
    const focused = tabs.indexOf(document.activeElement);
    let next = null;
    if (event.key in STEPS) next = (focused + STEPS[event.key] + tabs.length) % tabs.length;
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = tabs.length - 1;
    if (next === null || focused < 0) return;
    event.preventDefault();
    tabs[next].focus({ preventScroll: true });
    location.hash = tabs[next].hash;
  });
  addEventListener("hashchange", () => {
    if (!location.hash || names.includes(location.hash.slice(1).split("?")[0])) onChange(currentName());
  });
}

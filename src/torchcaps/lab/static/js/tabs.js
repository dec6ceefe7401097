// Tabs as links: the hash names the view, arrows move between tabs, Home and End jump.

const tabs = [...document.querySelectorAll('[role="tab"]')];
const names = tabs.map((tab) => tab.hash.slice(1));

export function currentName() {
  const name = location.hash.slice(1);
  return names.includes(name) ? name : names[0];
}

export function select(name) {
  for (const tab of tabs) {
    const chosen = tab.hash === `#${name}`;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !chosen;
    if (chosen) bringIntoStrip(tab);
  }
}

// Not scrollIntoView: it would move the page as well as the strip.
function bringIntoStrip(tab) {
  const strip = tab.parentElement;
  strip.scrollLeft = tab.offsetLeft - strip.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
}

// The hash names the view, so the skip link must not write its own.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("stage").focus();
});

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

export function listen(onChange) {
  document.querySelector('[role="tablist"]').addEventListener("keydown", (event) => {
    const here = tabs.indexOf(document.activeElement);
    let next = null;
    if (event.key in STEPS) next = (here + STEPS[event.key] + tabs.length) % tabs.length;
    else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = tabs.length - 1;
    if (next === null || here < 0) return;
    event.preventDefault();
    tabs[next].focus({ preventScroll: true });
    location.hash = tabs[next].hash;
  });
  addEventListener("hashchange", () => {
    if (!location.hash || names.includes(location.hash.slice(1))) onChange(currentName());
  });
}

// The settings of the current view in the address, as #view?name=value, so that a link or a reload restores them.

// Without settings in the address, those that were kept last.
export function settingsOf(view) {
  const [name, query] = address();
  const given = name === view && query && !waiting.has(view);
  if (given) rememberSettings(view, query);
  return new URLSearchParams((given ? query : keptSettings()[view]) ?? "");
}

function address() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  return [name || "draw", query];
}

// { view: its settings as text }
export function keptSettings() {
  return recall("settings") ?? {};
}

// Replaces the address, without a new entry in the history.
export function keepSettings(view, values) {
  const query = new URLSearchParams(values).toString();
  rememberSettings(view, query);
  if (address()[0] === view) replaceAddress(view, query);
}

function rememberSettings(view, query) {
  remember("settings", { ...keptSettings(), [view]: query });
}

const waiting = new Set(); // views whose address is not replaced yet
const KEEP_DELAY = 300; // milliseconds; browsers refuse to change the address many times in a second

// Returns a function that keeps settings at once, and replaces the address unless that was done a moment ago, as
// during a drag; then it is replaced a little later.
export function createKeeper(view) {
  let timer = null;
  let replaced = -Infinity;
  return (values) => {
    clearTimeout(timer);
    const keep = () => {
      replaced = performance.now();
      waiting.delete(view);
      keepSettings(view, values);
    };
    const wait = replaced + KEEP_DELAY - performance.now();
    if (wait <= 0) return keep();
    rememberSettings(view, new URLSearchParams(values).toString());
    waiting.add(view);
    timer = setTimeout(keep, wait);
  };
}

// Puts the settings of a view that is shown again back into the address.
export function showSettings(view) {
  const [name, query] = address();
  if (name === view && !query && keptSettings()[view]) replaceAddress(view, keptSettings()[view]);
}

// Whether the address has other settings than those that the view kept, for example from a link.
export function hasNewSettings(view) {
  const [name, query] = address();
  return name === view && query !== "" && query !== keptSettings()[view] && !waiting.has(view);
}

function replaceAddress(view, query) {
  history.replaceState(null, "", `${location.pathname}#${view}${query && `?${query}`}`);
}

// A setting of one of the allowed values, or the fallback.
export function settingOf(view, name, allowed, fallback) {
  const value = settingsOf(view).get(name);
  return allowed.find((choice) => String(choice) === value) ?? fallback;
}

// A setting that is a number in a range, or the fallback.
export function numberOf(view, name, [low, high], fallback) {
  const text = settingsOf(view).get(name);
  const value = Number(text);
  return text !== null && text !== "" && value >= low && value <= high ? value : fallback;
}

const KEY = "torchcaps-lab-";

// What is kept in this tab of the browser, for example the drawing; null if there is nothing.
export function recall(name) {
  try {
    return JSON.parse(sessionStorage.getItem(KEY + name));
  } catch {
    return null; // storage may be disabled
  }
}

export function remember(name, value) {
  try {
    sessionStorage.setItem(KEY + name, JSON.stringify(value));
  } catch {
    // then a reload starts anew
  }
}

// A page may be reloaded before its address was replaced: what was kept is newer.
if (performance.getEntriesByType("navigation")[0]?.type === "reload") {
  const [view] = address();
  if (keptSettings()[view]) replaceAddress(view, keptSettings()[view]);
}

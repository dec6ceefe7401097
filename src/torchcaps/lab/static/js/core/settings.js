// The settings of the current view in the address, as #view?name=value, so that a link or a reload restores them.

export function settingsOf(view) {
  const [name, query] = location.hash.slice(1).split("?");
  return new URLSearchParams(name === view ? query : "");
}

// Replaces the address, without a new entry in the history.
export function keepSettings(view, values) {
  if (location.hash.slice(1).split("?")[0] !== view) return;
  history.replaceState(null, "", `${location.pathname}#${view}?${new URLSearchParams(values)}`);
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

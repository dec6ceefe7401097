// The colors of style/tokens.css for canvases, which must be redrawn when the theme changes.

let cache = new Map();
const listeners = new Set();

document.addEventListener("themechange", () => {
  cache = new Map();
  for (const redraw of listeners) redraw();
});

// Calls `redraw` whenever the theme changes.
export function onTheme(redraw) {
  listeners.add(redraw);
}

// color("accent") -> [red, green, blue], 0..255
export function color(name) {
  if (!cache.has(name)) {
    const hex = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    const full = hex.length === 4 ? hex.replace(/[^#]/g, "$&$&") : hex;
    cache.set(name, [1, 3, 5].map((at) => parseInt(full.slice(at, at + 2), 16)));
  }
  return cache.get(name);
}

export function category(index) {
  return `var(--c${index % 8})`;
}

export function mix(from, to, share) {
  return from.map((value, channel) => value + (to[channel] - value) * share);
}

export function css(rgb) {
  return `rgb(${rgb.map((value) => Math.round(value)).join(" ")})`;
}

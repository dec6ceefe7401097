// A link to what the page shows: the view and its settings, which are in the address, and the drawing.

import { t } from "./i18n.js";
import { currentImage } from "./state.js";

const NAME = "drawing"; // the setting that holds the pixels, one byte each, in base64 for addresses

export function shareLink() {
  const [view, query] = location.hash.slice(1).split("?");
  const settings = new URLSearchParams(query);
  const image = currentImage();
  if (image) settings.set(NAME, encode(image));
  return `${location.origin}${location.pathname}#${view || "draw"}?${settings}`;
}

// The drawing of a link, or null. It is removed from the address, so that a later drawing survives a reload.
export function takeSharedDrawing() {
  const [view, query] = location.hash.slice(1).split("?");
  const settings = new URLSearchParams(query);
  const text = settings.get(NAME);
  if (text === null) return null;
  settings.delete(NAME);
  history.replaceState(null, "", `${location.pathname}#${view}${settings.size ? `?${settings}` : ""}`);
  return decode(text);
}

function encode(image) {
  const bytes = image.flat().map((value) => String.fromCharCode(Math.round(value * 255)));
  return btoa(bytes.join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function decode(text) {
  try {
    const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const side = Math.sqrt(bytes.length);
    if (side !== 28) return null;
    return Array.from({ length: side }, (_row, y) =>
      Array.from({ length: side }, (_column, x) => Number((bytes.charCodeAt(y * side + x) / 255).toFixed(3))));
  } catch {
    return null; // not base64
  }
}

export function connectShareButton(button) {
  button.addEventListener("click", async () => {
    const label = t("Copy link");
    const link = shareLink();
    try {
      await navigator.clipboard.writeText(link);
      button.textContent = t("Copied");
    } catch {
      history.replaceState(null, "", link); // no access to the clipboard: the address bar has the link
      button.textContent = t("See the address");
    }
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}

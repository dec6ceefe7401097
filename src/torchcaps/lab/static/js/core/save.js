// The menu that saves what a view shows: a picture of the view, and its numbers if the view has exports().
// exports() returns { table: rows of a CSV file, the first with names, data: any JSON } or null if nothing is shown.

import { button } from "./dom.js";
import { reportError } from "./api.js";
import { t } from "./i18n.js";

// getCurrent() -> { name, view: promise of a view }
export function connectSaveMenu(menu, getCurrent) {
  const item = (label, save) => button(label, async () => {
    menu.open = false;
    menu.querySelector("summary").focus();
    const { name, view } = getCurrent();
    try {
      await save(name, await view);
    } catch (error) {
      reportError(error);
    }
  });
  const picture = item(t("Picture (PNG)"), async (name) => {
    const { pictureOf } = await import("./picture.js");
    download(`${name}.png`, await pictureOf(document.querySelector(`#view-${name}`)));
  });
  const table = item(t("Table (CSV)"), (name, view) =>
    download(`${name}.csv`, new Blob([view.exports().table.map(csvRow).join("")], { type: "text/csv" })));
  const data = item(t("Numbers (JSON)"), (name, view) =>
    download(`${name}.json`, new Blob([JSON.stringify({ view: name, ...view.exports().data }, null, 1)], { type: "application/json" })));
  const list = document.createElement("div");
  list.className = "menu-items";
  list.append(picture, table, data);
  menu.append(list);

  menu.addEventListener("toggle", async () => {
    if (!menu.open) return;
    const view = await getCurrent().view;
    for (const each of [table, data]) each.disabled = !view.exports?.();
    list.querySelector("button:enabled").focus();
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!menu.contains(event.target)) menu.open = false;
  });
}

function csvRow(cells) {
  return `${cells.map((cell) => (/[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : cell)).join(",")}\n`;
}

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `torchcaps-${name}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

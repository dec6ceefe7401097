// "Words used here" stands at the end of the page; a button beside the title of each view opens it.

import { h } from "./dom.js";
import { t } from "./i18n.js";

export function connectGlossary(glossary) {
  const summary = glossary.querySelector("summary");
  const open = () => {
    glossary.open = true;
    summary.focus({ preventScroll: true });
    glossary.scrollIntoView({ block: "end" });
  };
  for (const title of document.querySelectorAll(".lead h1")) {
    title.after(h("button", { type: "button", class: "words-button", "aria-label": t("Words used here"), onclick: open },
      h("b", { "aria-hidden": "true" }, "?"), h("span", { "aria-hidden": "true" }, t("Words used here"))));
  }
}

// How often the two networks of a view differ over many inputs, and whether they do on the one that is shown: what a view
// opens with is chosen, so it says nothing about what is usual.

import { getCached } from "../core/api.js";
import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";

// sentence(differences) gives the text for what api/differences returns
export function createHowOften(sentence) {
  const element = h("p", { class: "soft small how-often" });
  let latest = 0;
  return {
    element,
    async show(differ) {
      latest += 1;
      const mine = latest;
      const differences = await getCached("api/differences").catch(() => null);
      if (mine !== latest || !differences) return;
      const often = sentence(differences);
      element.textContent = differ ? t("{often} Here they differ; the view opens with such an example.", { often }) : often;
    },
    clear() {
      latest += 1;
      element.textContent = "";
    },
  };
}

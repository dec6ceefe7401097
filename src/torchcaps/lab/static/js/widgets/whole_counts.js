// What both networks of a world find over many scenes: in scrambled and in intact wholes, and their errors, on the same
// scenes for both. From api/differences.

import { getCached } from "../core/api.js";
import { card, h } from "../core/dom.js";
import { formatNumber, t } from "../core/i18n.js";
import { networkLine } from "../core/networks.js";
import { createHowOften } from "./how_often.js";

// rates: a line of text; networks: a card
export function createWholeCounts(world) {
  const counted = getCached("api/differences").then(({ wholes }) => wholes[world]);
  const rates = createHowOften(({ wholes: { [world]: { scrambled, intact } } }) => t(
    "Of {count} scrambled wholes, the capsules find no whole in {none}; the CNN cannot answer that there is none, and one of its scores is 0.5 or more in {high}. Of {intact} intact ones, the capsules find a whole in {found}.", {
      count: formatNumber(scrambled.count), none: formatNumber(scrambled.both + scrambled.capsules), high: formatNumber(scrambled.capsules + scrambled.neither),
      intact: formatNumber(intact.count), found: formatNumber(intact.both + intact.capsules),
    }));
  rates.show(false);
  const metrics = (key) => counted.then(({ named }) => ({ count: named.count, error: 1 - (named.both + named[key]) / named.count }));
  const tested = h("p", { class: "tested soft small" });
  counted.then(({ scale, offset }) => {
    const [low, high] = scale.map((value) => value.toFixed(2));
    tested.textContent = t("Both errors were measured on the same pictures of one whole: size {low} to {high}, at most {far} off the middle, any angle. An error: another type has the highest score.", { low, high, far: offset[1].toFixed(1) });
  }, () => {});
  const networks = card("w12 two-networks", t("The two networks"), "",
    h("div", { class: "pair" },
      h("div", {}, networkLine("parts_capsnet", world, metrics("capsules")).element,
        h("p", { class: "soft small" }, t("It learned parts from pictures of loose parts, with their poses, and wholes from pictures of one whole."))),
      h("div", {}, networkLine("parts_cnn", world, metrics("cnn")).element, tested)));
  return { rates: h("div", { class: "w12 result" }, rates.element), networks };
}

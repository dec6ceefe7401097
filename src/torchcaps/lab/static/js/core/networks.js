// Which network computed a result: its name, size, test error and recipe, from api/status.

import { getCached } from "./api.js";
import { h } from "./dom.js";
import { formatNumber, t } from "./i18n.js";

// A line of text; it stays empty if the network is not installed.
export function networkLine(model, data) {
  const element = h("p", { class: "network" });
  const show = (nextModel, nextData) => {
    getCached("api/status").then(({ models }) => {
      element.textContent = networkText(models.find((entry) => entry.model === nextModel && entry.data === nextData));
    }, () => {});
  };
  if (model) show(model, data);
  return { element, show };
}

// The same for a network of the list that api/status returns.
export function networkText(network) {
  if (!network) return "";
  const size = formatNumber(network.num_params, { notation: "compact", maximumSignificantDigits: 3 });
  const parts = [network.model, t("{size} weights", { size })];
  const { error, count } = network.metrics;
  if (error !== undefined) {
    const values = {
      share: formatNumber(error, { style: "percent", maximumFractionDigits: 2 }),
      count: count ? formatNumber(count) : "",
      data: dataName(network.data),
    };
    parts.push(count ? t("{share} errors on {count} test images of {data}", values) : t("{share} errors on test images of {data}", values));
  }
  // Some networks have a command instead of a recipe, which is too long for a line.
  if (network.recipe && !network.recipe.includes(" ")) parts.push(t("recipe {name}", { name: network.recipe }));
  return parts.join(" · ");
}

// Variants are named data-variant.
function dataName(data) {
  const name = data.split("-")[0];
  return { mnist: "MNIST", multimnist: "MultiMNIST", toys: t("toys"), shapes: t("shapes"), faces: t("faces") }[name] ?? name;
}

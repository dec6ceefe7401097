// Which network computed a result: its name, size and test error, from api/status.

import { getCached } from "./api.js";
import { h } from "./dom.js";

const DATA = { mnist: "MNIST", multimnist: "MultiMNIST", toys: "toys", shapes: "shapes" };

// A line of text; it stays empty if the network is not installed.
export function networkLine(model, data) {
  const element = h("p", { class: "network" });
  const show = (nextModel, nextData) => {
    getCached("api/status").then(({ models }) => {
      element.textContent = describe(models.find((entry) => entry.model === nextModel && entry.data === nextData));
    }, () => {});
  };
  if (model) show(model, data);
  return { element, show };
}

function describe(network) {
  if (!network) return "";
  const parts = [network.model, `${sizeText(network.num_params)} weights`];
  const { error, count } = network.metrics;
  const data = network.data.split("-")[0]; // variants are named data-variant
  const name = DATA[data] ?? data;
  if (error !== undefined) {
    parts.push(`${Number((error * 100).toFixed(2))} % errors on ${count ? `${count.toLocaleString("en")} ` : ""}test images of ${name}`);
  }
  return parts.join(" · ");
}

function sizeText(count) {
  return count >= 1e6 ? `${(count / 1e6).toFixed(1)} M` : `${Math.round(count / 1e3)} K`;
}

// Which network computed a result: a plain name, its size and test error, and on request its name in the library and
// its recipe; from api/status.

import { getCached } from "./api.js";
import { h } from "./dom.js";
import { formatNumber, t } from "./i18n.js";

const NAMES = {
  capsnet_small: "Capsule network with dynamic routing",
  matrix_capsnet_small: "Matrix capsule network with EM routing",
  shared_capsnet: "Capsule network with shared weights",
  efficient_capsnet: "Efficient-CapsNet",
  parts_capsnet: "Capsule network of parts and wholes",
  pooled_cnn: "CNN with pooling",
  capsnet_cnn: "CNN with dense layers",
  parts_cnn: "CNN with pooling, on parts and wholes",
};
const TWINS = {
  dynamic: "Twin with dynamic routing", em: "Twin with EM routing", kmeans: "Twin with k-means routing", heinsen: "Twin with Heinsen (2019) routing",
};

// A line that opens to show more; it stays hidden if the network is not installed. metrics: a promise of test metrics in
// place of those of the network
export function networkLine(model, data, metrics = null) {
  const { element, show: showNetwork } = networkDetails();
  const show = (nextModel, nextData) => {
    Promise.all([getCached("api/status"), metrics]).then(([{ models }, measured]) => {
      const network = models.find((entry) => entry.model === nextModel && entry.data === nextData);
      showNetwork(network && measured ? { ...network, metrics: measured } : network);
    }, () => {});
  };
  if (model) show(model, data);
  return { element, show };
}

// The same for a network of the list that api/status returns; `first` is a text before it.
export function networkDetails(network = null) {
  const [summary, more] = [h("summary", {}), h("p", {})];
  const element = h("details", { class: "network", hidden: true }, summary, more);
  const show = (next, first = []) => {
    element.hidden = !next;
    if (!next) return;
    summary.textContent = [...first, networkName(next), ...facts(next)].join(" · ");
    more.textContent = [t("Name in the library: {id}", { id: next.id === "run" ? next.model : next.id }),
      ...(next.recipe ? [t("recipe {name}", { name: next.recipe })] : [])].join(" · ");
  };
  if (network) show(network);
  return { element, show };
}

// Of networks that the page does not know, the name in the library.
export function networkName({ id, model, data }) {
  if (id === "run") return t("your run");
  return t(TWINS[data.split("-twin-")[1]] ?? NAMES[model] ?? model);
}

// How many parameters networks have, as "961K", or as "111K to 112K" if they differ; of networks that are not installed, "".
export async function sizeText(...keys) {
  const { models } = await getCached("api/status");
  const sizes = models.filter(({ id }) => keys.includes(id)).map((network) => network.num_params).sort((one, two) => one - two);
  const [low, high] = [sizes[0], sizes.at(-1)].map((size) => (size === undefined ? "" : compact(size)));
  return low === high ? low : t("{low} to {high}", { low, high });
}

function compact(size) {
  return formatNumber(size, { notation: "compact", maximumSignificantDigits: 3 });
}

export function trainedOn(network) {
  return network.id === "run" ? t("your run") : t("trained on {data}", { data: dataName(network.data) });
}

// With the images that it was trained on, which tell networks of one kind apart.
export function fullName(network) {
  return network.id === "run" ? t("your run") : t("{network}, trained on {data}", { network: networkName(network), data: dataName(network.data) });
}

function facts(network) {
  const parts = [t("{size} parameters", { size: compact(network.num_params) })];
  const { error, count } = network.metrics;
  if (error === undefined) return parts;
  const values = {
    share: formatNumber(error, { style: "percent", maximumFractionDigits: 2 }),
    count: count ? formatNumber(count) : "",
    data: dataName(network.data),
  };
  return [...parts, count ? t("{share} errors on {count} test images of {data}", values) : t("{share} errors on test images of {data}", values)];
}

// Variants are named data-variant.
function dataName(data) {
  const name = data.split("-")[0];
  return { mnist: "MNIST", multimnist: "MultiMNIST", fashion_mnist: "Fashion-MNIST", toys: t("toys"), shapes: t("shapes"), faces: t("faces") }[name] ?? name;
}

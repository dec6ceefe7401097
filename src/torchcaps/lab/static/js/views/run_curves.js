// The curves of a run: loss, accuracy, learning rate and speed against steps.

import { h } from "../core/dom.js";
import { t } from "../core/i18n.js";
import { numberText } from "../core/scale.js";
import { createChart } from "../widgets/chart.js";

const percent = (value) => `${numberText(value, 1)} %`;

export function createRunCurves() {
  const xTitle = t("step");
  const [recent, whole, test] = [t("recent steps"), t("whole epoch"), t("test images")];
  // Each chart: its series as names of numbers in a point, and a factor.
  const charts = [
    {
      names: ["loss", "epoch_loss", "test_loss"], factor: 1,
      chart: createChart({ title: t("Loss"), xTitle, zero: true, series: [{ name: recent, kind: "line" }, { name: whole, kind: "line" }, { name: test, kind: "line" }], format: (value) => numberText(Number(value.toPrecision(4))) }),
    },
    {
      names: ["accuracy", "epoch_accuracy", "test_accuracy"], factor: 100,
      chart: createChart({ title: t("Accuracy"), unit: "%", xTitle, series: [{ name: recent, kind: "line" }, { name: whole, kind: "line" }, { name: test, kind: "line" }], format: percent }),
    },
    {
      names: ["lr"], factor: 1,
      chart: createChart({ title: t("Learning rate"), xTitle, zero: true, series: [{ name: t("learning rate"), kind: "line" }], format: (value) => value.toExponential(2).replace("-", "−") }),
    },
    {
      names: ["images_per_second"], factor: 1,
      chart: createChart({ title: t("Speed"), unit: t("images per second"), xTitle, zero: true, series: [{ name: t("speed"), kind: "line" }], format: (value) => t("{value} images/s", { value: numberText(value, 0) }) }),
    },
  ];
  const empty = h("p", { class: "soft small" }, t("Nothing is written yet: a line is added every 100 steps and at the end of each epoch."));
  const element = h("div", { class: "curves" }, empty, charts.map(({ chart }) => chart.element));
  let points = [];

  return {
    element,
    get points() {
      return points;
    },
    // New points; with reset, the earlier ones no longer hold.
    add(more, reset) {
      if (reset) points = [];
      points.push(...more);
      if (!more.length && !reset) return;
      empty.hidden = points.length > 0;
      for (const { names, factor, chart } of charts) {
        chart.show(names.map((name) => points.filter((point) => point[name] !== null).map((point) => [point.step, point[name] * factor])));
      }
    },
  };
}

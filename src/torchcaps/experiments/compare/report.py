"""The report of a comparison: `report.html`, `summary.json` and the figures, from the cells in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from torchcaps.experiments.compare.figures import draw_costs
from torchcaps.experiments.compare.forms import FORMS, FULL, SPEED
from torchcaps.experiments.compare.networks import BASELINES, HEADS, UNIFORM, Network
from torchcaps.experiments.compare.summary import (
    MEASURES,
    Measure,
    Row,
    Summary,
    seeds_of,
    spread,
    summarize,
    winners,
)
from torchcaps.experiments.framework.figures import save_figure
from torchcaps.experiments.framework.formatting import Spread
from torchcaps.experiments.framework.items import Figure, ReportItem, Table, Text, Verdict
from torchcaps.experiments.framework.report import origin_html, page_html, text_html
from torchcaps.experiments.framework.storage import write_json, write_text

REPORT, SUMMARY = "report.html", "summary.json"
# The table has many columns: on a wide screen it may be wider than the text.
STYLE = """
section:has(th:nth-child(9)) {
  --room: min(74rem, 100vw - 2.5rem); width: var(--room); margin-left: calc(50% - var(--room) / 2);
}
section:has(th:nth-child(9)) > :is(h2, .caption) {
  max-width: 43.5rem; margin-left: max(0rem, (var(--room) - 43.5rem) / 2);
}
td.number { white-space: nowrap; }
@media (min-width: 40rem) { tbody th { white-space: nowrap; } }
"""
FIGURES = ("accuracy", "novel")
COMMON_OPTIONS = ("name", "backbone", "routing", "pose", "pose_dim", "types", "class_layer")
# With fewer seeds a t-test finds only large differences.
FEW_SEEDS = 5


def write_report(out: str | Path) -> dict[str, Any]:
    """Draw the report of the cells in a folder; nothing is computed again.

    Returns:
        What `summary.json` holds.
    """
    out = Path(out)
    summary = summarize(out)
    table = summary.to_table()
    write_json(out / SUMMARY, table)
    write_text(out / REPORT, report_html(summary, out))
    return table


def report_html(summary: Summary, out: Path) -> str:
    """The page."""
    plan = summary.plan
    form = "quick form, on small data" if plan["form"] == "quick" else "full form"
    header = f"""<p class="kind">torchcaps · {escape(form)}</p>
<h1>{text_html("Capsule routings compared in one frame")}</h1>
<p class="source">Same data, loss and number of steps for every network; baselines on the same trunk</p>
<p class="data">Data: {text_html(data_sentence(plan["frame"]))}</p>"""
    footer = origin_html(
        f"torchcaps compare --{plan['form']}",
        plan["seconds"],
        plan["environment"],
        "numbers, settings",
        SUMMARY,
    )
    return page_html("compare", header, report_items(summary, out), footer, style=STYLE)


def report_items(summary: Summary, out: Path) -> list[ReportItem]:
    """Verdicts, table, figures, and how it was done."""
    items: list[ReportItem] = [*verdicts(summary), main_table(summary)]
    for measure in MEASURES:
        figure = draw_costs(summary, measure) if measure.key in FIGURES else None
        if figure is not None:
            path = save_figure(figure, out / f"costs-{measure.key}")
            items.append(Figure(f"costs-{measure.key}", path, figure_caption(summary, measure)))
    items += [Text(text) for text in protocol(summary)]
    items += [budget_table(summary), networks_table(summary)]
    if summary.failures:
        rows = [[title, message.splitlines()[0][:300]] for title, message in summary.failures]
        note = "These cells have no result; the same command tries them again."
        items.append(Table("Cells that failed", ["cell", "message"], rows, note, []))
    return items


def command(summary: Summary) -> str:
    """The command that computes the networks of a comparison."""
    form = FORMS.get(summary.plan["form"], FULL)
    routed = [row.network for row in summary.rows if not row.network.is_baseline]
    words = ["torchcaps", "compare"]
    heads = list(dict.fromkeys(network.head for network in routed))
    if set(heads) != set(form.routings) - {UNIFORM}:
        words += heads
    words.append(f"--{summary.plan['form']}")
    if any(network.pose != HEADS[network.head].poses[0] for network in routed):
        words += [
            word
            for pose in dict.fromkeys(network.pose for network in routed)
            for word in ("--pose", str(pose))
        ]
    if summary.trunks != [form.trunk]:
        words += [word for trunk in summary.trunks for word in ("--trunk", trunk)]
    if summary.plan["seeds"] != form.seeds:
        words += ["--seeds", str(summary.plan["seeds"])]
    return " ".join(words)


def data_sentence(frame: dict[str, Any]) -> str:
    """Which data the numbers come from."""
    names = {
        "digits": "scikit-learn's digits",
        "mnist": "MNIST",
        "toys": "rendered toys",
        "fashion_mnist": "Fashion-MNIST",
    }
    sources = dict.fromkeys(settings["source"] for settings in frame.values() if "source" in settings)
    return ", ".join(names.get(source, source) for source in sources)


def verdicts(summary: Summary) -> list[Verdict | Text | Table]:
    """Whether routing helps, and whether capsules do, as far as several seeds can tell."""
    if all(len(values) < 2 for row in summary.rows for values in row.values.values()):
        return [Text("With one seed, differences between networks cannot be told from chance.")]
    if all(row.network.is_baseline for row in summary.rows):
        return []
    return [
        *verdict(
            summary,
            (UNIFORM,),
            "Is any routing better than uniform routing, beyond chance?",
            "uniform routing with the same poses",
        ),
        *verdict(
            summary,
            tuple(BASELINES),
            "Is any routing better than the same trunk without capsules, beyond chance?",
            "average pooling and a dense layer",
        ),
    ]


def verdict(summary: Summary, against: tuple[str, ...], question: str, rivals: str) -> tuple[Verdict, Table]:
    """On how many tests a routing is better than these baselines beyond chance, and which one on which."""
    rows: list[list[object]] = []
    for measure in MEASURES:
        if any(measure.key in row.values for row in summary.rows if not row.network.is_baseline):
            ahead, behind = (names(each) for each in winners(summary, measure, against))
            rows.append([measure.phrase, ahead or "none", behind or "none"])
    better, worse = (sum(row[column] != "none" for row in rows) for column in (1, 2))
    said = f"On {better} of {len(rows)} tests a routing is better than {rivals}, on {worse} one is worse. "
    said += "The table names them."
    most = max(len(values) for row in summary.rows for values in row.values.values())
    if most < FEW_SEEDS:
        said += f" With {most} seeds only large differences can be told from chance."
    single = [
        row.network
        for row in summary.rows
        if not row.network.is_baseline and any(len(values) < 2 for values in row.values.values())
    ]
    if single:
        said += f" Where a network has one seed, nothing is said about it: {names(single)}."
    note = "Better than all of these baselines on the same trunk, or worse than one of them."
    if len(against) > 1:
        note += " A dense layer cannot read images of another size, so it has no result on two digits."
    return (
        Verdict(True if better == len(rows) else None if better else False, said, question),
        Table(f"Against {rivals}", ["test", "better", "worse"], rows, note, []),
    )


def names(networks: Sequence[Network]) -> str:
    """Names of networks in a sentence, each with its trunks.

    >>> names([Network("em", "matrix", "conv6"), Network("em", "matrix", "preact")])
    'em, matrix (conv6, preact)'
    """
    trunks: dict[str, list[str]] = {}
    for network in networks:
        trunks.setdefault(network.title(with_trunk=False), []).append(network.trunk)
    return "; ".join(f"{title} ({', '.join(each)})" for title, each in trunks.items())


def main_table(summary: Summary) -> Table:
    """All networks and all columns."""
    measures = [each for each in MEASURES if any(each.key in row.values for row in summary.rows)]
    headings = [f"{each.heading} (%)" for each in measures]
    rows = [row_cells(summary, row, measures) for row in summary.rows]
    marked = [number for number, row in enumerate(summary.rows) if row.network.is_baseline]
    columns = ["network", *headings, "images/s", "peak MB", "parameters"]
    if summary.partial:
        columns.append("seeds")
        rows = [[*cells, seeds_text(summary, row)] for cells, row in zip(rows, summary.rows)]
    return Table("All networks", columns, rows, caption(summary), marked)


def caption(summary: Summary) -> str:
    """What the columns of the table are."""
    said = [
        "Partial: not all cells are computed yet; the last column has the seeds of each part, and – is a "
        "missing number." * summary.partial,
        seeds_sentence(summary),
        "Percentages of test images that are right; higher is better.",
        "Affine: digits that are also rotated, sheared and scaled, which no network was trained on.",
        "Two digits: two digits side by side, after training on single ones; both must have the highest "
        "scores; – where a network cannot read images of this size.",
        "Overlap: two digits over each other, trained on such pairs; both must be right.",
        "Views: other toys than in training, from the directions of training and from novel ones; the "
        "networks were not brought to the same accuracy on familiar views first.",
    ]
    attack = summary.plan["frame"].get("digits", {})
    if attack.get("attacked"):
        starts = f"{attack['restarts']} random start{'s' * (attack['restarts'] > 1)}"
        said += [
            f"FGSM and PGD: white-box attacks on {attack['attacked']} digits that change each pixel, from 0 "
            f"to 1, by at most {attack['epsilon']:g}; PGD has {attack['pgd_steps']} steps and {starts}.",
            zero_gradients(summary),
        ]
    said += [
        "Images/s and peak memory: training steps on the CPU, with images as in the part of single digits.",
        "Parameters: for the part of single digits.",
        "Shaded: the baselines, which have no routing.",
    ]
    return " ".join(sentence for sentence in said if sentence)


def seeds_text(summary: Summary, row: Row) -> str:
    """The seeds that a network has in each part: one number if they are the same."""
    counts = [seeds_of(row, part) for part in summary.plan["frame"] if part != SPEED]
    return str(counts[0]) if len(set(counts)) == 1 else "/".join(map(str, counts))


def seeds_sentence(summary: Summary) -> str:
    """How many seeds the numbers are of."""
    counts = {len(values) for row in summary.rows for values in row.values.values()} or {1}
    if max(counts) == 1:
        return "One seed."
    number = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return f"Mean ± standard deviation of {number} seeds."


def zero_gradients(summary: Summary) -> str:
    """Warn if an attack had no direction to follow, which would look like robustness."""
    masked = [row for row in summary.rows if max(row.values.get("zero_gradients", [0.0])) > 0]
    if not masked:
        return "No image had a gradient of 0."
    share = max(max(row.values["zero_gradients"]) for row in masked)
    return (
        f"Up to {share:.0f} % of the images had a gradient of 0, where an attack fails without showing that "
        f"the network is robust: {names([row.network for row in masked])}."
    )


def row_cells(summary: Summary, row: Row, measures: Sequence[Measure]) -> list[Any]:
    """The cells of one network."""
    cells: list[Any] = [row.network.title(with_trunk=len(summary.trunks) > 1)]
    for measure in measures:
        values = row.values.get(measure.key)
        both = spread(values) if values else None
        cells.append(None if both is None else Spread(both["mean"] or 0.0, both["sd"]))
    speed = row.speed
    if not speed:
        return [*cells, None, None, row.parameters]
    return [*cells, round(speed["train_per_second"]), round(speed["peak_mb"]), int(speed["parameters"])]


def figure_caption(summary: Summary, measure: Measure) -> str:
    """What the figure shows."""
    several = any(len(row.values.get(measure.key, ())) > 1 for row in summary.rows)
    return (
        f"Error on {measure.phrase} against the time of training and against the number of parameters: "
        "lower and further left is better. Empty marks are baselines; squares have no capsules, and the "
        "shape of all "
        "other marks is the pose." + " Bars are one standard deviation over seeds." * several
    )


def protocol(summary: Summary) -> list[str]:
    """How it was done."""
    trunks = summary.trunks
    same = f"the same trunk, {trunks[0]}," if len(trunks) == 1 else f"one of the trunks {', '.join(trunks)},"
    return [
        f"Every network has {same} and on top of it capsules, average pooling with a linear layer, or a "
        "linear layer on the whole feature map. All are trained with Adam and the same learning rate, "
        "schedule, batch size and number of steps. Nothing was tuned for any of them, so a network that "
        "needs another learning rate or more time is at a disadvantage here. No images are augmented. A "
        "seed changes the first weights and the order of the images; the images themselves are the same.",
        "All networks minimize the cross-entropy of their logits. The papers train lengths of capsules "
        "with the margin loss and EM routing with the spread loss. Here every network has the same loss, "
        "so that a difference between networks is not one between losses. With two digits in an image, "
        "each has half of the probability.",
        "The epoch that is tested is the best one on validation images, which are held out of the training "
        "images. No test image was used to choose anything. Digits of validation are not in training; views "
        "of validation show the same toys as those of training.",
        "A difference is called beyond chance if it is larger than two standard errors of the test images, "
        "and significant over the seeds by Welch's t-test at 5 %. Many pairs are compared, and at 5 % "
        "about one in forty equal networks would come out as better. Views of one toy are not independent "
        "of each other, so that on views chance is larger than the test assumes.",
    ]


def budget_table(summary: Summary) -> Table:
    """The budget of each part."""
    rows: list[list[Any]] = []
    for part, settings in summary.plan["frame"].items():
        if "epochs" not in settings:
            continue
        seconds = [value for row in summary.rows for value in row.train_seconds.get(part, [])]
        rows.append(
            [
                part,
                settings["source"],
                settings["size"],
                settings["batch_size"],
                settings["epochs"],
                settings["lr"],
                round(min(seconds), 1) if seconds else None,
                round(max(seconds), 1) if seconds else None,
            ]
        )
    columns = [
        "part",
        "data",
        "image side",
        "batch size",
        "epochs",
        "learning rate",
        "shortest (s)",
        "longest (s)",
    ]
    caption = "The same for all networks. The times are those of the fastest and of the slowest training."
    return Table("Budget of one training", columns, rows, caption, [])


def networks_table(summary: Summary) -> Table:
    """What each network is, so that it can be built again."""
    rows: list[list[Any]] = []
    for row in summary.rows:
        model = row.model
        own = {key: value for key, value in model.items() if key not in COMMON_OPTIONS}
        options = ", ".join(f"{key}={value}" for key, value in own.items())
        source = HEADS[row.network.head].source if row.network.head in HEADS else "no capsules"
        name = row.network.title(with_trunk=len(summary.trunks) > 1)
        rows.append([name, source, options or "–", model.get("types"), model.get("pose_dim")])
    columns = ["network", "source", "options", "capsule types", "numbers in a pose"]
    note = "Options of the routing where they differ from the defaults of the model capsule_head."
    return Table("Heads", columns, rows, note, [])

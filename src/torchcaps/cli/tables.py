"""Tables that the commands print."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from torchcaps.data.imageset import ImageSet
    from torchcaps.training.metrics import Evaluation


# A confusion matrix is printed up to this many classes and columns of the terminal.
FEW_CLASSES, MATRIX_COLUMNS = 12, 80


def plain_table(*columns: str) -> Table:
    """A table without borders.

    Args:
        columns: the headings. One that starts with `>` is aligned right, for numbers; the cells below one
            that starts with `=`, or `>=`, are never broken, so that names can be copied.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.lstrip(">="),
            justify="right" if column.startswith(">") else "left",
            overflow="fold",  # by default a long word would be cut off
            no_wrap=column.lstrip(">").startswith("="),
        )
    return table


def wide_console(*, soft_wrap: bool = False, quiet: bool = False) -> Console:
    """Standard output; 160 columns in a pipe, where rich's default of 80 would break names and numbers."""
    width = None if sys.stdout.isatty() else 160
    return Console(highlight=False, soft_wrap=soft_wrap, width=width, quiet=quiet)


def number_table(rows: list[dict[str, Any]]) -> Table:
    """Measurements, with numbers to three digits; the columns are the keys of all rows."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    numeric = {c for c in columns if all(isinstance(row.get(c, 0), (int, float)) for row in rows)}
    table = plain_table(*(f">{c}" if c in numeric else c for c in columns))
    for row in rows:
        cells = [row.get(column, "") for column in columns]
        table.add_row(*(three_digits(cell) if isinstance(cell, float) else str(cell) for cell in cells))
    return table


def three_digits(number: float) -> str:
    """A measured number, rounded to three digits.

    >>> three_digits(0.07654), three_digits(12.345), three_digits(4321.0)
    ('0.0765', '12.3', '4321')
    """
    return f"{number:.0f}" if number >= 1000 else f"{number:.3g}"


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.98765)
    '98.77 %'
    """
    return f"{100 * share:.2f} %"


def metric_lines(metrics: dict[str, dict[str, Any]]) -> list[str]:
    """One line for each data set that a model was tested on."""
    lines = []
    for name, numbers in metrics.items():
        text = f"{name}: accuracy {percent(numbers['accuracy'])}, error {percent(numbers['error'])}"
        text += f" of {numbers['count']:,} images"
        if name not in ("test", "validation", "test_crops"):
            text += f"; {percent(numbers['accuracy_above_half'])} with every score above 0.5"
        if "reconstruction" in numbers:
            text += f"; reconstruction {numbers['reconstruction']:.2f}"
        lines.append(text)
    return lines


def print_evaluation(evaluation: Evaluation) -> None:
    """Print the metrics, then recall and precision per class, then the confusion matrix."""
    console = Console(highlight=False)
    table = plain_table("metric", ">value")
    table.add_row("images", f"{evaluation.count:,}")
    table.add_row("accuracy", percent(evaluation.accuracy))
    table.add_row("error", percent(evaluation.error))
    table.add_row("accuracy, every score above 0.5", percent(evaluation.accuracy_above_half))
    if evaluation.reconstruction is not None:
        table.add_row("reconstruction error", f"{evaluation.reconstruction:.3f}")
    console.print(table)
    rows = evaluation.per_class()
    if rows:
        console.print()
        table = plain_table("class", ">images", ">recall", ">precision")
        for name, count, recall, precision in rows:
            table.add_row(name, f"{count:,}", percent(recall), percent(precision))
        console.print(table)
        console.print()
        print_confusion(evaluation, console)


def print_confusion(evaluation: Evaluation, console: Console) -> None:
    """Print the confusion matrix if it can be read, or else where it is."""
    table = confusion_table(evaluation)
    # A console measures no more than its own width.
    width = Console(width=MATRIX_COLUMNS + 1).measure(table).maximum
    if len(evaluation.classes) <= FEW_CLASSES and width <= min(MATRIX_COLUMNS, console.width):
        console.print(table)
    else:
        console.print("The confusion matrix is too wide to print: --figure PNG draws it, --json has it.")


def confusion_table(evaluation: Evaluation) -> Table:
    """How often each class, by row, was taken for each class, by column; images must have one label each."""
    assert evaluation.confusion is not None
    table = plain_table("=true \\ predicted", *(f">={name}" for name in evaluation.classes))
    for name, counts in zip(evaluation.classes, evaluation.confusion.tolist()):
        table.add_row(name, *map(str, counts))
    return table


def model_rows(classes: int, channels: int, size: int) -> list[dict[str, Any]]:
    """All models with their number of parameters; it is `None` where the images are too small."""
    import torch

    from torchcaps.models import create_model, list_models, model_info

    rows = []
    for name in list_models():
        count = None
        try:
            # On the meta device a model has shapes but takes no memory.
            with torch.device("meta"):
                model = create_model(name, num_classes=classes, in_channels=channels, image_size=size)
            count = sum(parameter.numel() for parameter in model.parameters())
        except ValueError:
            pass
        description = first_line(model_info(name).constructor)
        rows.append({"model": name, "num_params": count, "description": description})
    return rows


def print_models(classes: int, channels: int, size: int) -> None:
    """Print all models with their numbers of parameters, then the trained weights."""
    table = plain_table("=model", ">parameters", "description")
    for row in model_rows(classes, channels, size):
        count = "image too small" if row["num_params"] is None else f"{row['num_params']:,}"
        table.add_row(row["model"], count, row["description"])
    console = wide_console()
    console.print(table)
    console.print(f"\nParameters for {classes} classes and {channels}×{size}×{size} images.")
    print_pretrained(console)


def print_pretrained(console: Console) -> None:
    """Print the trained weights that come with the package."""
    from torchcaps.models import list_pretrained

    table = plain_table("=model", "=data", ">parameters", ">accuracy", ">size", "=recipe")
    entries = list_pretrained()
    for entry in entries:
        accuracy = percent(entry["metrics"]["test"]["accuracy"])
        size = f"{entry['bytes'] / 1e6:.1f} MB"
        num_params = f"{entry['num_params']:,}"
        table.add_row(entry["model"], entry["data"], num_params, accuracy, size, entry["recipe"])
    if entries:
        console.print("\nTrained weights in the package: create_model(model, pretrained=data)\n")
        console.print(table)
        console.print("\nOn the command line: torchcaps predict digit.png --run capsnet_small-mnist")


def claim_rows() -> list[dict[str, Any]]:
    """All experiments, with the data they need and how long they take."""
    from torchcaps.experiments.listing import list_claims

    return [
        {"experiment": claim.name, "claim": claim.claim, "data": claim.data, "minutes": claim.minutes}
        for claim in list_claims()
    ]


def print_claims() -> None:
    """Print all experiments."""
    table = plain_table("experiment", "claim", "data", ">minutes")
    for row in claim_rows():
        table.add_row(*map(str, row.values()))
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "\nMinutes are estimates for 2 CPU cores. With --quick, each takes at most 3 minutes "
        "and downloads nothing."
    )


def comparison_facts() -> dict[str, Any]:
    """The routings of `torchcaps compare` with the poses that each works with, and the trunks."""
    from torchcaps.experiments.compare.networks import HEADS
    from torchcaps.models import list_trunks

    routings = [
        {"routing": name, "poses": list(head.poses), "source": head.source} for name, head in HEADS.items()
    ]
    return {"routings": routings, "trunks": list(list_trunks())}


def print_comparison() -> None:
    """Print what `torchcaps compare` knows."""
    facts = comparison_facts()
    table = plain_table("=routing", "poses", "source")
    for row in facts["routings"]:
        table.add_row(row["routing"], ", ".join(row["poses"]), row["source"])
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "\nThe first pose is the default. Baselines: average pooling, dense layer, uniform routing."
    )
    console.print(f"Trunks: {', '.join(facts['trunks'])}")


def dataset_rows() -> list[dict[str, str]]:
    """All data sets."""
    from torchcaps.data import dataset_info, list_datasets

    return [{"data": name, "description": first_line(dataset_info(name).loader)} for name in list_datasets()]


def print_datasets() -> None:
    """Print all data sets."""
    table = plain_table("data set", "description")
    for row in dataset_rows():
        table.add_row(row["data"], row["description"])
    Console(highlight=False).print(table)


def print_dataset(name: str, split: str, images: ImageSet) -> None:
    """Print what a data set holds."""
    table = plain_table("", "")
    table.show_header = False
    shape = "×".join(str(size) for size in (images.in_channels, *images.image_size))
    table.add_row("data set", f"{name} ({split})")
    table.add_row("images", f"{len(images):,} of {shape}")
    table.add_row("classes", ", ".join(images.classes))
    if images.metadata:
        table.add_row("metadata", ", ".join(images.metadata))
    Console(highlight=False).print(table)


def first_line(documented: object) -> str:
    """The first line of a docstring."""
    return (documented.__doc__ or "").strip().partition("\n")[0]

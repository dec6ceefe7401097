"""Trained on single digits, capsules read two; pooling does not. On scikit-learn's digits, in two minutes."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torchcaps._extras import require
from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.models import Model, create_model
from torchcaps.training import Callback, fit, predict
from torchcaps.training.callbacks import Plan
from torchcaps.training.checkpoint import Position
from torchcaps.training.metrics import all_above_half, all_correct

if TYPE_CHECKING:
    from rich.progress import Progress

SIZE = 16
STAGES = ((32, 32), (64,))
NETWORKS = {"shared_capsnet": "shared capsules", "pooled_cnn": "pooled CNN"}


def run_demo(
    *, epochs: int = 60, seed: int = 0, figure: Path = Path("demo.png"), quiet: bool = False
) -> dict[str, dict[str, float]]:
    """Train the two networks of the two-digit experiment on single digits, then test them on two digits.

    Args:
        epochs: passes over the 1,442 training digits.
        seed: of weights, batches and pairs.
        figure: file to draw examples into; nothing is drawn where matplotlib is not installed.
        quiet: print nothing.

    Returns:
        The accuracies per network in percent: `single`, `both`, `both_above_half`.
    """
    require("rich", extra="train", purpose="the demo")
    from rich.console import Console
    from rich.progress import Progress

    console = Console(quiet=quiet)
    train, single = load("digits", "train", size=SIZE), load("digits", "test", size=SIZE)
    pairs = load("two_digits", "test", source="digits", size=SIZE, per_image=8, seed=seed)
    console.print(f"Training on {len(train)} single digits, then reading {len(pairs)} pairs side by side.")
    results, scores = {}, {}
    with Progress(console=console) as progress:
        for name in NETWORKS:
            model = train_network(name, train, epochs=epochs, seed=seed, progress=progress)
            scores[name] = predict_scores(model, pairs)
            results[name] = {
                "single": percent(all_correct(predict_scores(model, single), single.labels)),
                "both": percent(all_correct(scores[name], pairs.labels)),
                "both_above_half": percent(all_above_half(scores[name], pairs.labels)),
            }
    console.print(results_table(results))
    if find_spec("matplotlib"):
        draw_examples(pairs, scores, figure)
        console.print(f"Examples with the length of every capsule: {figure}")
    else:
        console.print('No figure: that needs pip install "torchcaps[figures]"', markup=False)
    return results


class ProgressBar(Callback):
    """A bar of a `rich` progress display that advances with every step."""

    def __init__(self, progress: Progress, name: str) -> None:
        self.progress, self.name = progress, name

    def on_train_begin(self, plan: Plan, position: Position) -> None:
        """Add the bar."""
        self.task = self.progress.add_task(self.name, total=plan.epochs * plan.batches)

    def on_step_end(self, position: Position, totals: Tensor) -> None:
        """Advance it."""
        self.progress.update(self.task, completed=position.step)


def train_network(name: str, train: ImageSet, *, epochs: int, seed: int, progress: Progress) -> Model:
    """Train one small network: Adam, shifts of a pixel, and an average of the weights."""
    torch.manual_seed(seed)
    model = create_model(name, num_classes=10, in_channels=1, image_size=SIZE, stages=STAGES)
    with TemporaryDirectory() as folder:
        fit(
            model,
            train,
            out=folder,
            loss="margin",
            epochs=epochs,
            batch_size=32,
            lr=2e-3,
            seed=seed,
            preprocess=Preprocess(translate=1),
            ema_decay=0.995,
            callbacks=[ProgressBar(progress, NETWORKS[name])],
        )
    return model


def predict_scores(model: Model, images: ImageSet) -> Tensor:
    """Scores `[N, classes]` of every image."""
    return predict(model, Preprocess().test(images.images)).scores


def percent(right: Tensor) -> float:
    """Share of true values in percent.

    >>> percent(torch.tensor([True, True, True, False]))
    75.0
    """
    return 100 * float(right.float().mean())


def results_table(results: dict[str, dict[str, float]]) -> object:
    """The three accuracies of each network, for the terminal."""
    from rich.table import Table

    table = Table(title="Trained on single digits only", title_justify="left")
    table.add_column("network")
    for column in ("single digit", "both of two", "both, scores > 0.5"):
        table.add_column(column, justify="right")
    for name, row in results.items():
        table.add_row(NETWORKS[name], *(f"{value:.1f} %" for value in row.values()))
    return table


def draw_examples(pairs: ImageSet, scores: dict[str, Tensor], path: Path, count: int = 5) -> None:
    """Draw pairs above the scores that each network gives every class."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.1 * count, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1 + len(scores), count, squeeze=False, height_ratios=[1.1] + [1] * len(scores))
    # Spread over the set: neighbors share their left digit.
    chosen = torch.linspace(0, len(pairs) - 1, count + 2).long()[1:-1].tolist()
    for column, index in enumerate(chosen):
        axes[0, column].imshow(pairs.images[index, 0], cmap="gray_r", interpolation="nearest")
        axes[0, column].axis("off")
        truth = set(pairs.labels[index].tolist())
        for row, (name, values) in enumerate(scores.items(), start=1):
            axis = axes[row, column]
            colors = ["#c8553d" if digit in truth else "#b8c0c8" for digit in range(10)]
            axis.bar(range(10), values[index].tolist(), color=colors)
            axis.axhline(0.5, color="#555555", linewidth=0.6, linestyle=":")
            axis.set(ylim=(0, 1), xticks=range(10), yticks=[0, 0.5, 1] if column == 0 else [])
            axis.tick_params(labelsize=8, length=2)
            axis.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axis.set_ylabel(f"{NETWORKS[name]}\nscore", fontsize=9)
    figure.suptitle(
        "Two digits, read by networks trained on one; the digits in the image are red", fontsize=11
    )
    figure.savefig(path, dpi=150)

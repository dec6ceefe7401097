"""The networks that are compared on novel viewpoints, and how they are trained."""

from __future__ import annotations

import json
from typing import Any

from torchcaps.data.datasets.norb import FAMILIAR
from torchcaps.experiments.compare.networks import Network, model_options
from torchcaps.training import Recipe, load_recipe

CNN, PAPER = "the paper's CNN", "the paper's capsules, EM"
POOLED, DENSE = "light trunk, average pooling", "light trunk, dense layer"
EM, ROWS = "light trunk, EM", "light trunk, EM, rows"
HEINSEN, SELF = "light trunk, Heinsen", "light trunk, self-routing"
QUATERNION = "light trunk, quaternions"
# What stands on the light trunk: head and pose, as `torchcaps compare` has them.
HEADS = {
    POOLED: ("pooled", None),
    DENSE: ("dense", None),
    EM: ("em", "matrix"),
    ROWS: ("em_rows", "matrix"),
    HEINSEN: ("heinsen", "matrix"),
    SELF: ("self_routing", "vector"),
    QUATERNION: ("self_routing", "quaternion"),
}
CAPSULES = (PAPER, EM, ROWS, HEINSEN, SELF, QUATERNION)
"""The networks with routing."""
NETWORKS = (CNN, PAPER, *HEADS)
QUICK_NETWORKS = (CNN, PAPER, POOLED, SELF)
TRUNK, TYPES = "preact", 8
# The learning rate of the light trunk is that of `torchcaps compare`.
RATE = 2e-3
# Of the varied toys, ten designs with random proportions; with the five toys of NORB per category, networks
# know too little about new toys for a comparison of viewpoints.
TOYS = 25


def make_recipe(data: str, viewpoint: str, name: str, *, quick: bool) -> Recipe:
    """A network on the familiar views.

    Args:
        data: `"toys"` or `"smallnorb"`.
        viewpoint: `"azimuth"` or `"elevation"`.
        name: of the network.
        quick: a short training on small images.
    """
    file = "toys-norb-cnn" if name == CNN else "toys-matrix-capsnet-small"
    recipe = load_recipe(file).override(
        [
            f'data.name="{data}"',
            f'data.options.viewpoint="{viewpoint}"',
            # With a constant learning rate every epoch is a fair point to stop; the average reduces noise.
            'schedule.name="constant"',
            "schedule.warmup_steps=100",
            "training.batch_size=64",
            "evaluation.crops=1",
            'training.precision="bf16"',
        ]
    )
    if name in HEADS:
        head, pose = HEADS[name]
        options = model_options(Network(head, pose, TRUNK), TYPES)
        recipe = recipe.override([f'model={{name="{options.pop("name")}"}}', f"optimizer.lr={RATE}"])
        recipe = recipe.override(
            [f"model.options.{key}={json.dumps(value)}" for key, value in options.items()]
        )
    views = [
        f"data.options.{key}={json.dumps(value)}"
        for key, value in view_options(data, viewpoint, quick=quick).items()
    ]
    if quick:
        shorter = ["data.preprocess.crop=24", "training.epochs=8", "training.ema_decay=0.97"]
        return recipe.override([*views, *shorter, "training.batch_size=32", "schedule.warmup_steps=20"])
    # With some held out, the trainer does not see test toys after every epoch. Nothing is chosen by them.
    longer = ["data.val_fraction=0.02", "training.epochs=10", "training.ema_decay=0.99"]
    return recipe.override([*views, *longer])


def view_options(data: str, viewpoint: str, *, quick: bool) -> dict[str, Any]:
    """Options of the loader: which toys and views, and how large.

    All values of the viewpoint that is tested are there in the full form, and some of the others.

    Example:
        >>> view_options("smallnorb", "azimuth", quick=False)
        {'size': 48}
    """
    if data != "toys":
        return {"size": 48}
    if quick and viewpoint == "azimuth":
        azimuths = (*FAMILIAR["azimuth"], 8, 14, 20, 26)
        return {"size": 32, "azimuths": azimuths, "elevations": (1, 4, 7), "lightings": (0, 3)}
    if quick:
        elevations = (*FAMILIAR["elevation"], 5, 8)
        return {"size": 32, "elevations": elevations, "azimuths": range_of(0, 36, 6), "lightings": (0, 3)}
    common: dict[str, Any] = {"size": 40, "toys_per_category": TOYS, "lightings": (0, 3)}
    if viewpoint == "azimuth":
        return {**common, "elevations": (0, 2, 4, 6, 8)}
    return {**common, "azimuths": range_of(0, 36, 4)}


def range_of(start: int, stop: int, step: int) -> tuple[int, ...]:
    """Codes of views that are equally far apart.

    >>> range_of(0, 36, 12)
    (0, 12, 24)
    """
    return tuple(range(start, stop, step))

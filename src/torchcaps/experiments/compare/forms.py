"""The two forms of a comparison: which data, how long, and how it is tested."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torchcaps.experiments.compare.networks import HEADS

PARTS = ("digits", "overlap", "views")
SPEED = "speed"


@dataclass(frozen=True)
class PartSettings:
    """One training: its images, its budget and its tests. All of it is part of the identity of a cell.

    Attributes:
        source: data set that the images are made from.
        size: side of the images, in pixels.
        epochs: passes over the training images.
        batch_size: images per step.
        per_image: versions of each training image of the source.
        limit: training images of the source, validation images included; `None` for all.
        test_limit: test images of the source; `None` for all.
        test_per_image: versions of each test image of the source.
        views: selection of views, as options of `load("toys")`.
        validation: share of the training images held out to choose the epoch by.
        lr: largest learning rate of Adam; it falls to 0 as a cosine, after a linear rise.
        warmup_steps: length of the rise.
        attacked: test images that are attacked; 0 for no attack.
        epsilon: the largest change of a pixel in an attack.
        pgd_steps: steps of PGD.
        restarts: random starting points of PGD.
    """

    source: str
    size: int
    epochs: int
    batch_size: int = 64
    per_image: int = 1
    limit: int | None = None
    test_limit: int | None = None
    test_per_image: int = 1
    views: tuple[tuple[str, tuple[int, ...]], ...] = ()
    validation: float = 0.1
    lr: float = 2e-3
    warmup_steps: int = 20
    attacked: int = 0
    epsilon: float = 0.1
    pgd_steps: int = 20
    restarts: int = 1

    def to_table(self) -> dict[str, Any]:
        """All settings, as JSON can hold them."""
        return asdict(self)


@dataclass(frozen=True)
class Form:
    """A size of the comparison.

    Attributes:
        name: `"quick"` or `"full"`.
        parts: settings of each part, by name.
        types: capsule types of a head with vectors or matrices, see `POSES`.
        trunk: trunk of the networks, if none is named.
        seeds: number of seeds, if not given.
        routings: routings that are compared, if none are named.
        minutes: limit for one cell, if not given.
        speed_seconds: how long each speed is measured.
    """

    name: str
    parts: dict[str, PartSettings]
    types: int = 8
    trunk: str = "preact"
    seeds: int = 3
    routings: tuple[str, ...] = tuple(HEADS)
    minutes: float = 8.0
    speed_seconds: float = 2.0


# All familiar azimuths and a few novel ones, as in the quick form of the experiment `viewpoints`.
QUICK_VIEWS = (
    ("azimuths", (30, 32, 34, 0, 2, 4, 10, 14, 18, 22, 26)),
    ("elevations", (2, 5)),
    ("lightings", (0, 3)),
)
QUICK = Form(
    "quick",
    {
        "digits": PartSettings(
            "digits", size=20, epochs=6, batch_size=32, test_per_image=4, attacked=100, pgd_steps=10
        ),
        "overlap": PartSettings("digits", size=18, epochs=3, batch_size=32, per_image=2, test_per_image=4),
        "views": PartSettings("toys", size=24, epochs=8, batch_size=32, views=QUICK_VIEWS),
    },
    trunk="conv6",
    seeds=2,
    routings=("dynamic", "em"),
    minutes=2.0,
    speed_seconds=0.5,
)
# Sizes that keep most trainings near one minute on one core, and the slowest near 4: all routings on two
# trunks with three seeds are 300 trainings. In a trial with batches of 64, 420 steps were too few for
# self-routing (44 % right).
FULL = Form(
    "full",
    {
        # In the same trial PGD with an epsilon of 0.05 left no network more than 2 % right.
        "digits": PartSettings(
            "mnist", 28, epochs=3, batch_size=32, limit=10_000, test_limit=3000, attacked=200, epsilon=0.02
        ),
        "overlap": PartSettings("mnist", 27, epochs=3, batch_size=32, limit=10_000, test_limit=3000),
        "views": PartSettings("toys", 24, epochs=6, batch_size=32, test_limit=3000),
    },
)
FORMS = {form.name: form for form in (QUICK, FULL)}

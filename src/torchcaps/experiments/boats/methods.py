"""The methods that are compared on scenes of boats and houses: five routings, and two without routing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torchcaps.routing import Routing, create_routing

KINDS = ("single", "crowded", "ambiguous")
EM, MIXING, KMEANS, DYNAMIC, UNIFORM = "EM", "EM, mixing proportions", "k-means", "dynamic", "uniform"
INITIAL, NEAREST = "initial couplings, no iteration", "nearest parts in the image"
ROUTED = (EM, MIXING, KMEANS, DYNAMIC)
UNROUTED = (UNIFORM, INITIAL, NEAREST)
ITERATIONS = 12
SIGMA = 0.06  # expected standard deviation of the votes for one whole
OPTIONS: dict[str, dict[str, Any]] = {
    # With these λ and β_a a proposal is inactive with half a part, and active with one part or more.
    EM: {
        "name": "em",
        "iterations": ITERATIONS,
        "inverse_temperature": 0.3,
        "decay": 0.0,
        "beta_a": -20.0,
        "epsilon": SIGMA**2,
    },
    MIXING: {
        "name": "em",
        "iterations": ITERATIONS,
        "activation": "mixing",
        "covariance": "fixed",
        "sigma": SIGMA,
    },
    KMEANS: {
        "name": "kmeans",
        "iterations": ITERATIONS,
        "metric": "euclidean",
        "temperature": 2 * SIGMA**2,
    },
    # 3 iterations, as in the paper: on a hundred other scenes of each kind, 2 to 4 gave the same result. The
    # 12 iterations of the other routings are too many, because the logits keep growing (crowded scenes: 95 %
    # correct instead of 99 %).
    DYNAMIC: {"name": "dynamic", "iterations": 3},
    UNIFORM: {"name": "uniform"},
}
ROUTINGS: dict[str, Callable[[], Routing]] = {
    name: partial(create_routing, **options) for name, options in OPTIONS.items()
}

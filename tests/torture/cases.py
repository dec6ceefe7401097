"""Random capsule layers with random children, each drawn from its name, such as `em:42`.

The name has the routing in it, so that another routing does not change the cases of this one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import Tensor

from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps, list_pose_spaces, list_routings
from torchcaps.capsules import SQUASHES
from torchcaps.layers import CapsuleLayer

SAMPLES = 16
"""Samples of a batch. Samples are independent, so each is a case of its own."""

# The options of each routing that are drawn from; a routing without an entry has its defaults.
OPTIONS: dict[str, dict[str, tuple[Any, ...]]] = {
    "uniform": {"squash": tuple(SQUASHES)},
    "dynamic": {
        "iterations": (1, 2, 3, 5),
        "update": ("accumulate", "fixed_point"),
        "gradient": ("all", "last"),
        "bias": (False, True),
        "leaky": (False, True),
        "squash": ("hinton", "hinton", *SQUASHES),
    },
    "kmeans": {
        "iterations": (1, 2, 3, 5),
        "metric": ("cosine", "euclidean"),
        "temperature": (0, 0.1, 1.0, 10.0),
    },
    "em": {
        "iterations": (1, 2, 3, 5),
        "activation": ("mdl", "mdl", "mixing", "mixing_layer"),
        "covariance": ("diagonal", "diagonal", "spherical", "fixed", "full"),
        "inverse_temperature": (0.01, 1.0),
        "normalize_mass": (False, True),
        "share_beta": (False, True),
        "beta_u": (0.0, -1.0, 10.0),
        "beta_a": (0.0, 5.0),
    },
}
PUBLISHED = {"activation": "mdl", "covariance": "diagonal", "squash": "hinton"}
# Sizes (D_in, D_out) of each pose space; a space without an entry is not drawn.
POSES: dict[str, tuple[tuple[int, int], ...]] = {
    "vector": ((1, 1), (2, 3), (4, 4), (8, 16), (16, 8)),
    "matrix": ((1, 1), (4, 4), (9, 9), (16, 16), (16, 16), (16, 16)),
}
GEOMETRIES = ("dense", "shared", "conv", "class")
PRECISIONS = ("float32", "float32", "float64", "bfloat16")
LIVE = (0, 1, 2, 3, None)
SCALE_RANGES = ((-2, 2), (-2, 2), (-2, 2), (-15, 15), (-30, 30))


@dataclass
class Draw:
    """A layer and a batch of children.

    Attributes:
        name: repeats it.
        precision: `"float32"`, `"float64"`, or `"bfloat16"`: bfloat16 children under autocast.
        layer: in float64 for precision float64, otherwise in float32.
        capsules: the children, in the type that the layer is called with.
        exponents: the smallest and the largest power of ten of a child's scale.
        words: what was drawn, for messages.
    """

    name: str
    precision: str
    layer: CapsuleLayer
    capsules: Capsules
    exponents: tuple[float, float]
    words: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.words.items())


def case_names(seed: int) -> Iterator[str]:
    """Names of cases without end, every routing in turn; EM, which has most options and most code, twice."""
    routings = [*list_routings(), "em"]
    for number in count(seed * 10**7):
        yield f"{routings[number % len(routings)]}:{number}"


def draw(name: str) -> Draw:
    """The case of this name."""
    choose = random.Random(name)
    torch.manual_seed(choose.getrandbits(32))
    options = draw_options(choose, name.partition(":")[0])
    layer, shape, words = draw_layer(choose, options)
    weight_exponent = 0.0 if choose.random() < 0.9 else choose.uniform(-3, 3)
    with torch.no_grad():
        layer.weight.mul_(10.0**weight_exponent)
        if layer.log_prior is not None:
            layer.log_prior.normal_()
    precision = choose.choice(PRECISIONS)
    pose, exponents = draw_poses(choose, shape)
    activation = draw_activations(choose, pose)
    capsules = Capsules(pose, activation)
    if precision == "float64":
        layer = layer.double()
    else:
        half = torch.bfloat16 if precision == "bfloat16" else torch.float32
        capsules = Capsules(pose.float().to(half), activation.float().to(half))
    low, high = (round(each + weight_exponent, 1) for each in exponents)
    words = {**options, **words, "precision": precision, "exponents": (low, high)}
    return Draw(name, precision, layer, capsules, (low, high), words)


def draw_options(choose: random.Random, routing: str) -> dict[str, Any]:
    """A routing with random options."""
    options: dict[str, Any] = {"routing": routing}
    for name, values in OPTIONS.get(routing, {}).items():
        options[name] = choose.choice(values)
    if choose.random() < 0.5:  # the published form, which the kernels have
        options |= {name: value for name, value in PUBLISHED.items() if name in options}
    if options.get("activation", "mdl") != "mdl":
        for name in ("normalize_mass", "share_beta", "beta_u", "beta_a", "inverse_temperature"):
            options.pop(name, None)
    return options


def draw_layer(
    choose: random.Random, options: dict[str, Any]
) -> tuple[CapsuleLayer, tuple[int, ...], dict[str, Any]]:
    """A small layer, the shape of children that fit it, and the words for both."""
    geometry = choose.choice(GEOMETRIES)
    pose = choose.choice([name for name in list_pose_spaces() if name in POSES])
    size_in, size_out = choose.choice(POSES[pose])
    types, parents = choose.choice((1, 2, 3, 4, 6)), choose.choice((1, 2, 3, 5))
    if options["routing"] == "em" and choose.random() < 0.5:
        pose, size_in, size_out = "matrix", 16, 16
    more: dict[str, Any] = {"pose": pose, **options}
    if choose.random() < 0.1:
        more["learn_prior"] = True
    words: dict[str, Any] = {"geometry": geometry, "pose": pose, "dims": (size_in, size_out), "J": parents}
    if "learn_prior" in more:
        words["learn_prior"] = True
    layer: CapsuleLayer
    if geometry == "dense":
        layer, shape = DenseCaps(types, size_in, parents, size_out, **more), (types, size_in)
    elif geometry == "shared":
        layer, shape = SharedCaps(size_in, parents, size_out, **more), (types, size_in)
    else:
        types = min(types, 2)
        grid = choose.choice(((1, 2), (2, 2), (3, 2), (3, 3)))
        more |= {"in_dim": size_in, "out_dim": size_out}
        if geometry == "class":
            layer = ClassCaps(types, parents, coordinates=choose.random() < 0.5 and size_out > 1, **more)
        else:
            kernel = choose.choice((1, 2, 3))
            padding = choose.randrange(kernel)
            if kernel > min(grid) + 2 * padding:
                padding = kernel - 1
            stride = choose.choice((1, 2))
            words |= {"K": kernel, "stride": stride, "padding": padding}
            layer = ConvCaps(types, parents, kernel_size=kernel, stride=stride, padding=padding, **more)
        shape = (*grid, types, size_in)
    words["children"] = shape[:-1]
    return layer, shape, words


def draw_poses(choose: random.Random, shape: tuple[int, ...]) -> tuple[Tensor, tuple[float, float]]:
    """Poses `[SAMPLES, *shape]` in float64, and the exponents of the smallest and the largest scale."""
    pose = torch.randn(SAMPLES, *shape, dtype=torch.float64)
    low, high = choose.choice(SCALE_RANGES)
    first = second = choose.uniform(low, high)
    kind = choose.random()
    if kind < 0.05:
        pose = torch.ones_like(pose)
    elif kind < 0.08:
        pose = torch.zeros_like(pose)
    if choose.random() < 0.1:
        second = choose.uniform(low, high)
    first, second = sorted((first, second))
    types = shape[-2]
    exponents = torch.linspace(first, second, types, dtype=torch.float64)[torch.randperm(types)]
    return pose * 10.0 ** exponents[:, None], (first, second)


def draw_activations(choose: random.Random, pose: Tensor) -> Tensor:
    """Activations `[SAMPLES, ...]` of which some samples have a few that are not 0.

    In some draws, the poses of inactive children become 0 too.
    """
    activation = torch.ones(pose.shape[:-1], dtype=torch.float64)
    kind = choose.random()
    if kind < 0.5:
        activation = torch.rand_like(activation)
    elif kind < 0.55:
        activation *= 10.0 ** choose.uniform(-30, 0)
    flat = activation.flatten(1)
    for row in flat:
        live = choose.choice(LIVE)
        if live is not None:
            row[torch.randperm(len(row))[live:]] = 0
    activation = flat.view_as(activation)
    if choose.random() < 0.3:
        pose *= (activation != 0).unsqueeze(-1)
    return activation

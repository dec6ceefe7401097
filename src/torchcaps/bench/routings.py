"""Routing × geometry × form (plain, compiled, fused): time, images/s, and speed relative to GEMM.

The work is counted the same for all forms, whatever they recompute. Per vote (child, parent, position), with
pose dimension D and K multiply-adds per entry (4 for 4×4 matrices, else the dimension of the child's vector):

- forward, each iteration: the vote 2·K·D, and the routing's own operations per entry (`OPERATIONS`);
- backward, each iteration: the vote again, both products of its gradient (4·K·D), and twice the routing's
  operations.

EM and Heinsen routing recompute votes in each iteration, which is faster than storing them; the others
compute them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps import kernels
from torchcaps._compiling import INLINE_VOTES
from torchcaps.bench.measure import Row, gemm_rate, seconds
from torchcaps.capsules import Capsules
from torchcaps.layers import CapsuleLayer, ClassCaps, ConvCaps, DenseCaps, SharedCaps
from torchcaps.routing import routing_options

FORMS = ("plain", "compiled", "fused")
ITERATIONS = 3
# Routings whose kernel is for matrix poses; it computes votes again in each iteration.
MATRIX_KERNELS = ("em", "em_rows", "heinsen")
# Other forms of a routing: its name and options.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {"em_rows": ("em", {"covariance": "rows"})}

# Operations per entry of a vote: in the weighted sums of an iteration, and in the assignment before it.
OPERATIONS = {
    "dynamic": (2, 2),
    "em": (5, 5),
    # For each entry, the products with 4 rows: in the sums, and with the inverse factor.
    "em_rows": (10, 8),
    "heinsen": (5, 5),
    "inverted_attention": (2, 2),
    "kmeans": (2, 3),
    "self_attention": (4, 2),
    "self_routing": (2, 0),
    "sinkhorn": (5, 0),
    "uniform": (2, 0),
    "variational": (5, 5),
}


class Case(NamedTuple):
    """A layer to measure.

    Attributes:
        layer: the layer.
        pose: shape of the child poses of one image.
        votes: number of votes per image.
        products: multiply-adds per entry of a vote, K.
        size: entries of a vote, D.
    """

    layer: CapsuleLayer
    pose: tuple[int, ...]
    votes: int
    products: int = 4
    size: int = 16


def cases(routing: str) -> dict[str, Case]:
    """A layer of each geometry as published; dense and shared ones have the poses that a kernel is for."""
    name, changed = VARIANTS.get(routing, (routing, {}))
    options: dict[str, Any] = {"routing": name, **changed}
    if "iterations" in routing_options(name):
        options["iterations"] = ITERATIONS
    flat = {
        "dense": Case(DenseCaps(1152, 8, 10, 16, **options), (1152, 8), 1152 * 10, products=8),
        "shared": Case(SharedCaps(128, 10, 16, **options), (144, 128), 144 * 10, products=128),
    }
    if routing in MATRIX_KERNELS:
        flat = {
            "dense": Case(DenseCaps(256, 16, 16, 16, pose="matrix", **options), (256, 16), 256 * 16),
            "shared": Case(SharedCaps(16, 10, 16, pose="matrix", **options), (144, 16), 144 * 10),
        }
    first = ConvCaps(32, 32, kernel_size=3, stride=2, **options)
    second = ConvCaps(32, 32, kernel_size=3, **options)
    return flat | {
        "conv 14→6": Case(first, (14, 14, 32, 16), 36 * 288 * 32),
        "conv 6→4": Case(second, (6, 6, 32, 16), 16 * 288 * 32),
        "class 4×4": Case(ClassCaps(32, 10, **options), (4, 4, 32, 16), 512 * 10),
    }


def work(routing: str, case: Case) -> tuple[float, float]:
    """Floating-point operations per image, forward and backward, counted as at the top of this file."""
    size, products = case.size, case.products
    name, _ = VARIANTS.get(routing, (routing, {}))
    iterations = ITERATIONS if "iterations" in routing_options(name) else 1
    sums, assignment = OPERATIONS[routing]
    steps = size * (sums * iterations + assignment * (iterations - 1))
    votes = 2 * products * size * (iterations if routing in MATRIX_KERNELS else 1)
    return case.votes * (votes + steps), case.votes * (3 * votes + 2 * steps)


def has_kernel(layer: CapsuleLayer, capsules: Capsules) -> bool:
    """Whether the layer would use a fused kernel for these capsules."""
    return layer.routing.fused(layer.votes(capsules), capsules.activation.flatten(1)) is not None


def routing_rows(
    routings: Iterable[str],
    forms: Iterable[str] = ("plain", "fused"),
    *,
    batch: int = 16,
    budget: float = 2.0,
    device: str = "cpu",
) -> Iterator[Row]:
    """Measure routings in every geometry and form, one row at a time; milliseconds are per image.

    Args:
        routings: names of routings or of `VARIANTS`.
        forms: of `FORMS`; a layer without a fused kernel has no such row.
        batch: images per batch.
        budget: seconds for each measurement.
        device: where to measure.

    >>> row = next(routing_rows(["em"], ["plain"], batch=1, budget=0.0))
    >>> row["routing"], row["geometry"], row["form"]
    ('em', 'dense', 'plain')
    """
    for routing in routings:
        for geometry, case in cases(routing).items():
            case.layer.to(device)
            pose = torch.randn(batch, *case.pose, device=device, requires_grad=True)
            activation = torch.rand(pose.shape[:-1], device=device, requires_grad=True)
            children = Capsules(pose, activation)
            for form in forms:
                if form != "fused" or has_kernel(case.layer, children):
                    row = measure(case.layer, children, form, work(routing, case), budget)
                    yield {"routing": routing, "geometry": geometry, "form": form, **row}


def measure(
    layer: CapsuleLayer, children: Capsules, form: str, work: tuple[float, float], budget: float
) -> Row:
    """Time one layer in one form."""
    run: Callable[[Capsules], Capsules] = layer
    if form == "compiled":
        torch.compiler.reset()  # torch.compile gives up after eight versions of one class
        run = torch.compile(layer, options=INLINE_VOTES, fullgraph=True)

    def forward() -> Tensor:
        parents = run(children)
        return parents.pose.sum() + parents.activation.sum()

    def infer() -> Tensor:
        with torch.no_grad():
            return forward()

    with nullcontext() if form == "fused" else kernels.disabled():
        device = children.pose.device
        gemm = gemm_rate(device)
        once = seconds(infer, budget, device)
        both = seconds(lambda: forward().backward(), budget, device)
    back = max(both - once, 1e-9)  # noise, if the whole step took less time than its forward pass
    batch = len(children.pose)
    forward_rate, backward_rate = batch * work[0] / once, batch * work[1] / back
    return {
        "forward ms": 1e3 * once / batch,
        "backward ms": 1e3 * back / batch,
        "images/s": batch / both,
        "forward % GEMM": 100 * forward_rate / gemm,
        "backward % GEMM": 100 * backward_rate / gemm,
    }

"""Routing × geometry × form (plain, compiled, fused): time, images/s, GFLOP/s and the share of GEMM's rate.

    python benchmarks/routing.py [--threads 2] [--batch 16] [--forms plain,compiled,fused] [--json out.json]

Useful work is counted alike for all forms, whatever they recompute. Per vote (child, parent, position), with
D numbers in a pose and K multiply-adds per number (4 for 4×4 matrices, else the size of the child's vector):

- forward, each iteration: the vote 2·K·D, its M-step 5·D (EM) or 2·D (dynamic), and its E-step 5·D (EM) or
  2·D (dynamic), but for the last;
- backward, each iteration: the vote again, both products that lead back from it (4·K·D), and twice the
  arithmetic of the M- and E-steps.

Dynamic routing casts votes once, so the vote and its way back count once for all iterations.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from measure import gemm_rate, machine, seconds, table
from torch import Tensor

from torchcaps.routing import DynamicRouting, EMRouting, Routing
from torchcaps.votes import ClassVotes, ConvVotes, DenseVotes, SharedVotes, Votes

ITERATIONS = 3


class Layer(torch.nn.Module):
    """A routing on a geometry; `fused` decides which form the routing takes."""

    def __init__(self, routing: Routing, geometry: Callable[[Tensor, Tensor], Votes], fused: bool) -> None:
        super().__init__()
        self.routing, self.geometry, self.fused = routing, geometry, fused

    def forward(self, pose: Tensor, weight: Tensor, activation: Tensor) -> tuple[Tensor, Tensor]:
        routed = self.routing(self.geometry(pose, weight), activation, coupling=not self.fused)
        return routed.pose, routed.activation


def conv(stride: int) -> Callable[[Tensor, Tensor], Votes]:
    return lambda pose, weight: ConvVotes(pose, weight, kernel_size=3, stride=stride, matrix=True)


# name: routing, geometry, pose, weight, votes per image
LAYERS = {
    "em conv 14→6": (EMRouting(32), conv(2), (14, 14, 32, 16), (288, 32, 4, 4), 36 * 288 * 32),
    "em conv 6→4": (EMRouting(32), conv(1), (6, 6, 32, 16), (288, 32, 4, 4), 16 * 288 * 32),
    "em class 4×4": (
        EMRouting(10), lambda p, w: ClassVotes(p, w, matrix=True), (4, 4, 32, 16), (32, 10, 4, 4), 512 * 10,
    ),
    "em dense 256": (
        EMRouting(16), lambda p, w: DenseVotes(p, w, matrix=True), (256, 16), (256, 16, 4, 4), 256 * 16,
    ),
    "dynamic dense 1152": (DynamicRouting(10), DenseVotes, (1152, 8), (1152, 10, 8, 16), 1152 * 10),
    "dynamic shared 144": (DynamicRouting(10), SharedVotes, (144, 128), (10, 128, 16), 144 * 10),
}  # fmt: skip


def work(routing: Routing, votes: float, weight: tuple[int, ...]) -> tuple[float, float]:
    """Useful floating-point operations, forward and backward; see the head of this file."""
    em = isinstance(routing, EMRouting)
    size, products = (16, 4) if em else (weight[-1], weight[-2])
    casts = ITERATIONS if em else 1
    steps = (5 if em else 2) * size * (2 * ITERATIONS - 1)
    return votes * (casts * 2 * products * size + steps), votes * (casts * 6 * products * size + 2 * steps)


def measure(name: str, form: str, batch: int) -> dict[str, object]:
    routing, geometry, pose_shape, weight_shape, votes = LAYERS[name]
    torch.manual_seed(0)
    pose = torch.randn(batch, *pose_shape, requires_grad=True)
    noise = torch.randn(weight_shape)
    weight = (torch.eye(4) + 0.3 * noise if isinstance(routing, EMRouting) else 0.1 * noise).requires_grad_()
    activation = torch.rand(batch, torch.Size(pose_shape[:-1]).numel(), requires_grad=True)
    layer: torch.nn.Module = Layer(routing, geometry, fused=form == "fused")
    if form == "compiled":
        layer = torch.compile(layer)  # type: ignore[assignment]

    def forward() -> Tensor:
        found, presence = layer(pose, weight, activation)
        return found.sum() + presence.sum()

    def infer() -> Tensor:
        with torch.no_grad():
            return forward()

    gemm = gemm_rate()
    once = seconds(infer)
    both = seconds(lambda: forward().backward())
    forward_work, backward_work = (batch * flops for flops in work(routing, votes, weight_shape))
    back = max(both - once, 1e-9)
    return {
        "layer": name,
        "form": form,
        "forward ms": once * 1e3,
        "backward ms": back * 1e3,
        "images/s": batch / both,
        "forward GFLOP/s": forward_work / once / 1e9,
        "backward GFLOP/s": backward_work / back / 1e9,
        "forward % of GEMM": 100 * forward_work / once / gemm,
        "backward % of GEMM": 100 * backward_work / back / gemm,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--forms", default="plain,compiled,fused")
    parser.add_argument("--layers", default="", help="only layers whose name contains this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = [
        measure(name, form, options.batch)
        for name in LAYERS
        if options.layers in name
        for form in options.forms.split(",")
    ]
    print(table(rows))
    if options.json:
        options.json.write_text(
            json.dumps({"machine": machine(), "batch": options.batch, "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()

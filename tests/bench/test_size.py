"""Counted sizes: against formulas, and against the memory that a process measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torchcaps import Capsules, ConvCaps, DenseCaps
from torchcaps.bench import GPUS, size_rows
from torchcaps.bench.size import count_step

TOLERANCE = 0.2


def layer_step(kind: str, batch: int) -> Callable[[], tuple[nn.Module, Callable[[], Any]]]:
    """A forward and backward pass of a layer of one of the papers."""

    def make() -> tuple[nn.Module, Callable[[], Any]]:
        if kind == "conv":
            layer: nn.Module = ConvCaps(32, 32, kernel_size=3, routing="em")
            shape: tuple[int, ...] = (6, 6, 32, 16)
        else:
            layer, shape = DenseCaps(1152, 8, 10, 16, routing="dynamic"), (1152, 8)
        pose = torch.randn(batch, *shape).requires_grad_()
        activation = torch.rand(pose.shape[:-1])

        def step() -> None:
            layer(Capsules(pose, activation)).pose.sum().backward()

        return layer, step

    return make


# Measured in a process of its own: what a step adds to the memory, after a step that loads all libraries.
MEASURE = """
import json, sys
from pathlib import Path
from torchcaps import kernels
from contextlib import nullcontext
def value(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024
what, batch, form = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def make(batch):
    if what in ("conv", "dense"):
        from bench.test_size import layer_step
        return layer_step(what, batch)()
    import torch
    from torchcaps.bench.networks import training_step
    from torchcaps.models import create_model
    size = 32 if "matrix" in what else 28
    model = create_model(what, image_size=size)
    return model, training_step(model, torch.rand(batch, 1, size, size), torch.arange(batch) % 10)
with kernels.disabled() if form == "plain" else nullcontext():
    make(1)[1]()
    Path("/proc/self/clear_refs").write_text("5")
    before = value("VmRSS")
    model, step = make(batch)
    step()
    step()
print(json.dumps(value("VmHWM") - before))
"""


def measured(what: str, batch: int, form: str) -> float:
    # Without a fixed threshold, freed memory is kept and reused, and the peak depends on the order of sizes.
    fixed = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", MEASURE, what, str(batch), form]
    environment = os.environ | fixed | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return float(json.loads(done.stdout))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux")
@pytest.mark.parametrize(
    ("what", "batch", "form"),
    [
        ("conv", 4, "plain"), ("conv", 256, "fused"), ("dense", 64, "plain"), ("dense", 256, "fused"),
        ("capsnet", 64, "plain"), ("capsnet", 64, "fused"),
        ("matrix_capsnet_small", 16, "plain"), ("matrix_capsnet_small", 256, "fused"),
        ("matrix_capsnet", 64, "fused"),
    ],
)  # fmt: skip
def test_memory_is_what_a_process_needs(what: str, batch: int, form: str) -> None:
    if what in ("conv", "dense"):
        counted = count_step(layer_step(what, batch), form=form).peak / 2**20
    else:
        image = 32 if "matrix" in what else 28
        rows = size_rows(what, batch=batch, image=image)
        counted = float(str(rows[-1][f"{form} MB"]))
    actual = measured(what, batch, form)
    assert abs(counted / actual - 1) <= TOLERANCE, f"counted {counted:.0f} MB, measured {actual:.0f} MB"


def test_products_are_counted_by_their_formula() -> None:
    def make() -> tuple[nn.Module, Callable[[], Any]]:
        layer = nn.Linear(300, 200)
        images = torch.rand(700, 300)
        return nn.Sequential(layer), lambda: layer(images).sum().backward()

    size = count_step(make, form="plain")
    # Forward, and the gradient of the weight; the images have none. The rest is one operation per number.
    products = 2 * 2 * 700 * 300 * 200
    assert products <= sum(count.flop for count in size.counts.values()) < 1.05 * products


def test_the_plain_form_stores_votes_and_the_fused_form_does_not() -> None:
    votes = 4 * 2 * 16 * 288 * 32 * 16
    plain, fused = (count_step(layer_step("conv", 2), form=form) for form in ("plain", "fused"))
    assert plain.peak > 4 * votes
    assert fused.peak < votes / 4


def test_memory_of_the_fused_form_grows_with_children_and_parents_alone() -> None:
    """On a GPU too: with twice the images it doubles, and it is far below one tensor of votes."""
    once, twice = (
        count_step(layer_step("conv", n), form="fused", rate=1e12, bandwidth=1e12).peak for n in (16, 32)
    )
    assert 1.5 < twice / once <= 2.01
    assert twice < 4 * 32 * 16 * 288 * 32 * 16 / 4


def test_rows_of_a_network() -> None:
    rows = size_rows("capsnet_small", batch=2, image=28, gpu="A100")
    *layers, whole = rows
    assert whole["layer"] == "in all"
    assert sum(int(str(row["parameters"])) for row in layers) == whole["parameters"]
    assert float(str(whole["plain ms"])) > 0
    with pytest.raises(ValueError, match="unknown gpu 'A10'"):
        size_rows("capsnet_small", gpu="A10")
    assert all(gpu.teraflops > 0 and gpu.bandwidth > 0 for gpu in GPUS.values())

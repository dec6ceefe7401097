"""How large a network is, by counting: parameters, operations, bytes and memory, plain and fused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode

from torchcaps import kernels
from torchcaps._checks import check_choice, check_count
from torchcaps.bench.gpus import GPUS
from torchcaps.bench.measure import Row
from torchcaps.bench.meter import OTHER, Count, Meter
from torchcaps.bench.networks import training_step
from torchcaps.models import create_model

MIB = 2**20
FORMS = ("plain", "fused")


@dataclass(frozen=True)
class Size:
    """What a training step needs.

    Attributes:
        peak: bytes in use at the same time, at most: weights, gradients and the optimizer's state included.
        counts: of each layer.
        parameters: of each layer, in numbers.
    """

    peak: int
    counts: dict[str, Count]
    parameters: dict[str, int]


def layers_of(model: nn.Module, prefix: str = "") -> dict[str, nn.Module]:
    """The layers of a network by name; sequences are opened.

    >>> list(layers_of(nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))))
    ['0', '1.0']
    """
    found: dict[str, nn.Module] = {}
    for name, module in model.named_children():
        if isinstance(module, (nn.Sequential, nn.ModuleList)):
            found |= layers_of(module, f"{prefix}{name}.")
        else:
            found[prefix + name] = module
    return found


def count_step(
    make: Callable[[], tuple[nn.Module, Callable[[], Any]]],
    *,
    form: str,
    rate: float = 0.0,
    bandwidth: float = 0.0,
) -> Size:
    """Count a training step, without computing it.

    Args:
        make: returns a module and a function that makes a step of training; called where tensors have no
            memory.
        form: `"plain"` or `"fused"`.
        rate: operations per second of a GPU, for times and the memory of the Triton kernels; 0 for a CPU.
        bandwidth: its bytes per second.
    """
    used = kernels.disabled() if check_choice("form", form, FORMS) == "plain" else nullcontext()
    meter = Meter(rate=rate, bandwidth=bandwidth)
    # Fields of convolutional capsules may be cached from an earlier, real layer.
    with FakeTensorMode(allow_non_fake_inputs=True), used, meter:
        module, step = make()
        layers = layers_of(module) or {OTHER: module}
        meter.watch(layers)
        step()  # creates the state of the optimizer
        meter.start()
        step()
        parameters = {name: sum(p.numel() for p in layer.parameters()) for name, layer in layers.items()}
        total = sum(p.numel() for p in module.parameters())
        rest = total - sum(parameters.values())
        counts = {name: meter.counts.get(name, Count()) for name in dict.fromkeys([*layers, OTHER])}
        return Size(meter.peak, counts, parameters | {OTHER: parameters.get(OTHER, 0) + rest})


def network_size(
    name: str, *, batch: int, image: int, channels: int = 1, classes: int = 10, form: str, **options: Any
) -> Size:
    """Count a training step of a model: forward, backward, and an update by Adam.

    Args:
        name: of the model.
        batch: images per step.
        image: height and width of an image.
        channels: of an image.
        classes: number of classes.
        form: `"plain"` or `"fused"`.
        options: of `count_step`.

    Example:
        >>> size = network_size("capsnet_small", batch=2, image=28, form="fused")
        >>> size.peak > 4 * 4 * sum(size.parameters.values())
        True
    """

    def make() -> tuple[nn.Module, Callable[[], Any]]:
        model = create_model(name, image_size=image, in_channels=channels, num_classes=classes)
        images: Tensor = torch.rand(batch, channels, image, image)
        return model, training_step(model, images, torch.arange(batch) % classes)

    return count_step(make, form=form, **options)


def size_rows(
    name: str, *, batch: int = 64, image: int = 32, channels: int = 1, classes: int = 10, gpu: str = ""
) -> list[Row]:
    """A row per layer and one for the whole network.

    `MB` is the most memory that a layer has in use, that kept for the backward pass included; of the whole
    network also weights, gradients and optimizer. `ms` is the time at the peak rate and bandwidth of a GPU,
    which no program reaches.

    Args:
        name: of the model.
        batch: images per step.
        image: height and width of an image.
        channels: of an image.
        classes: number of classes.
        gpu: a name of `GPUS`, for times and for the memory of the Triton kernels.
    """
    check_count("batch", batch)
    check_count("image", image)
    options: dict[str, Any] = {}
    if gpu:
        found = GPUS[check_choice("gpu", gpu, tuple(GPUS))]
        options = {"rate": found.teraflops * 1e12, "bandwidth": found.bandwidth * 1e9}
    sizes = {
        form: network_size(
            name, batch=batch, image=image, channels=channels, classes=classes, form=form, **options
        )
        for form in FORMS
    }
    plain = sizes["plain"]
    rows: list[Row] = []
    for layer in plain.counts:
        rows.append({"layer": layer, "parameters": plain.parameters.get(layer, 0)} | _cells(sizes, layer))
    whole: Row = {"layer": "in all", "parameters": sum(plain.parameters.values())}
    for column in rows[0]:
        if column not in whole:
            whole[column] = sum(float(str(row[column])) for row in rows)
    for form, size in sizes.items():
        whole[f"{form} MB"] = size.peak / MIB
    return [*rows, whole]


def _cells(sizes: dict[str, Size], layer: str) -> Row:
    cells: Row = {}
    for form, size in sizes.items():
        count = size.counts.get(layer, Count())
        cells[f"{form} GFLOP"] = count.flop / 1e9
        cells[f"{form} GB moved"] = count.moved / 1e9
        cells[f"{form} MB"] = count.peak / MIB
        if count.seconds:
            cells[f"{form} ms"] = 1e3 * count.seconds
    return cells

"""Whole networks: images per second in inference and in training, and the memory used.

Each network is measured in a process of its own, because the peak memory of a process never falls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from torchcaps.bench.measure import Row, gemm_rate, seconds
from torchcaps.losses import margin_loss, reconstruction_loss
from torchcaps.models import Model, create_model
from torchcaps.models.capsnet import CapsNet

# Batch sizes: the smaller ones are those of published measurements, the larger ones those of training.
NETWORKS = {
    "matrix_capsnet": (16, 64),
    "matrix_capsnet_small": (64,),
    "capsnet": (32, 128),
    "capsnet_small": (128,),
    "shared_capsnet": (128,),
}
IMAGE_SIZE = {"matrix_capsnet": 32, "matrix_capsnet_small": 32}  # 28 for the others


def network_rows(networks: Mapping[str, Iterable[int]] = NETWORKS, *, budget: float = 5.0) -> Iterator[Row]:
    """Measure networks, one row at a time.

    `train/s` and `infer/s` are images per second. `peak MB` is the memory above that of the imported library.
    `% of convs` is the speed of a training step relative to the network's two convolutions alone.

    Args:
        networks: batch sizes by model name.
        budget: seconds for each measurement.
    """
    for name, batch in ((name, batch) for name, batches in networks.items() for batch in batches):
        command = [sys.executable, "-m", "torchcaps.bench.networks", name, str(batch), str(budget)]
        environment = os.environ | {"TORCHCAPS_THREADS": str(torch.get_num_threads())}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise RuntimeError(f"measuring {name} failed:\n{done.stderr[-2000:]}")
        yield json.loads(done.stdout)


def peak_memory() -> float:
    """The peak memory of this process, in MB.

    On Linux, `ru_maxrss` of a child includes its parent's memory, so VmHWM is read there.

    >>> peak_memory() > 10
    True
    """
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def training_step(model: Model, images: Tensor, target: Tensor) -> Callable[[], None]:
    """A training step as in the recipes."""
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        output = model(images, target)
        loss = margin_loss(output.scores, target)
        if output.reconstruction is not None:
            loss = loss + reconstruction_loss(output.reconstruction, images)
        loss.backward()
        optimizer.step()

    return step


def convolution_step(model: CapsNet, images: Tensor) -> Callable[[], None]:
    """Forward and backward of the two convolutions alone, to compare the whole network with."""
    layers = nn.Sequential(model.conv, nn.ReLU(), model.primary.conv)

    def step() -> None:
        for parameter in layers.parameters():
            parameter.grad = None
        layers(images).square().mean().backward()

    return step


def measure(name: str, batch: int, budget: float) -> Row:
    """Time one network in this process."""
    imported = peak_memory()
    torch.manual_seed(0)
    size = IMAGE_SIZE.get(name, 28)
    model = create_model(name, image_size=size)
    images, target = torch.rand(batch, 1, size, size), torch.arange(batch) % 10
    gemm = gemm_rate()
    train = seconds(training_step(model, images, target), budget)
    memory = peak_memory() - imported

    def infer() -> None:
        with torch.no_grad():
            model(images)

    row: Row = {
        "network": name,
        "batch": batch,
        "train/s": batch / train,
        "infer/s": batch / seconds(infer, budget / 2),
        "peak MB": memory,
        "GEMM GFLOP/s": gemm / 1e9,
    }
    if isinstance(model, CapsNet):
        row["% of convs"] = 100 * seconds(convolution_step(model, images), budget) / train
    return row


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["TORCHCAPS_THREADS"]))
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))

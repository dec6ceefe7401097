"""Whole networks: images per second in inference and in training, and the memory used.

Each network is measured in a process of its own, because the peak memory of a process never falls.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from torchcaps.bench.measure import Row, gemm_rate, peak_memory, seconds
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


def network_rows(
    networks: Mapping[str, Iterable[int]] = NETWORKS, *, budget: float = 5.0, device: str = "cpu"
) -> Iterator[Row]:
    """Measure networks, one row at a time.

    `train/s` and `infer/s` are images per second. `peak MB` is the memory above that of the imported library,
    or of the tensors on a GPU. Images are on the device before the time starts.
    `% of convs` is the speed of a training step relative to the network's two convolutions alone.

    Args:
        networks: batch sizes by model name.
        budget: seconds for each measurement.
        device: where to measure.
    """
    for name, batch in ((name, batch) for name, batches in networks.items() for batch in batches):
        command = [sys.executable, "-m", "torchcaps.bench.networks", name, str(batch), str(budget), device]
        environment = os.environ | {"TORCHCAPS_THREADS": str(torch.get_num_threads())}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            raise RuntimeError(f"measuring {name} failed:\n{done.stderr[-2000:]}")
        yield json.loads(done.stdout)


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


def measure(name: str, batch: int, budget: float, device: str = "cpu") -> Row:
    """Time one network in this process."""
    imported = peak_memory(device)
    torch.manual_seed(0)
    size = IMAGE_SIZE.get(name, 28)
    model = create_model(name, image_size=size).to(device)
    images = torch.rand(batch, 1, size, size).to(device)
    target = torch.arange(batch, device=device) % 10
    train = seconds(training_step(model, images, target), budget, device)
    memory = peak_memory(device) - imported
    gemm = gemm_rate(device)

    def infer() -> None:
        with torch.no_grad():
            model(images)

    row: Row = {
        "network": name,
        "batch": batch,
        "train/s": batch / train,
        "infer/s": batch / seconds(infer, budget / 2, device),
        "peak MB": memory,
        "GEMM GFLOP/s": gemm / 1e9,
    }
    if isinstance(model, CapsNet):
        row["% of convs"] = 100 * seconds(convolution_step(model, images), budget, device) / train
    return row


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["TORCHCAPS_THREADS"]))
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])))

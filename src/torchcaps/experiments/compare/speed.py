"""Speed and memory of one network, measured in a process of its own: the peak of a process never falls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import torch

from torchcaps.bench.measure import peak_memory, seconds
from torchcaps.errors import RunError
from torchcaps.experiments.compare.cells import Cell
from torchcaps.losses import activation_cross_entropy
from torchcaps.models import Model, create_model

NUM_CLASSES = 10


def measure_speed(cell: Cell) -> dict[str, float]:
    """Images per second in training and in inference, peak memory in MB, and the number of parameters.

    Args:
        cell: of the part `"speed"`.
    """
    command = [sys.executable, "-m", "torchcaps.experiments.compare.speed", json.dumps(cell.identity())]
    environment = os.environ | {"TORCHCAPS_THREADS": str(torch.get_num_threads())}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RunError(f"measuring the speed failed: {done.stderr.strip()[-1000:]}")
    return json.loads(done.stdout)


def training_step(model: Model, optimizer: torch.optim.Optimizer, images: torch.Tensor) -> None:
    """One step of training, with any labels."""
    optimizer.zero_grad()
    labels = torch.arange(len(images)) % model.num_classes
    activation_cross_entropy(model(images).logits, labels).backward()
    optimizer.step()


def measure(identity: dict[str, Any]) -> dict[str, float]:
    """Measure in this process."""
    settings = identity["settings"]
    batch, size = settings["batch_size"], settings["size"]
    imported = peak_memory()
    torch.manual_seed(0)
    model = create_model(**identity["model"], num_classes=NUM_CLASSES, in_channels=1, image_size=size)
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.rand(batch, 1, size, size)
    train = seconds(lambda: training_step(model, optimizer, images), settings["seconds"])
    memory = peak_memory() - imported
    model.eval()

    def infer() -> None:
        with torch.no_grad():
            model(images)

    return {
        "train_per_second": batch / train,
        "infer_per_second": batch / seconds(infer, settings["seconds"] / 2),
        "peak_mb": memory,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ["TORCHCAPS_THREADS"]))
    print(json.dumps(measure(json.loads(sys.argv[1]))))

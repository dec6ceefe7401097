"""Turn a toy: rendered as for training, read by matrix capsules and by a CNN."""

from __future__ import annotations

from math import isqrt
from typing import Any

import torch

from torchcaps.data.datasets.norb import FAMILIAR
from torchcaps.data.worlds.toys import CATEGORIES, render
from torchcaps.data.worlds.toys.assembly import INSTANCES
from torchcaps.data.worlds.toys.table import (
    AZIMUTHS,
    ELEVATIONS,
    LIGHTINGS,
    SPLIT_INSTANCES,
    azimuth_degrees,
    elevation_degrees,
)
from torchcaps.lab.looking import class_capsules
from torchcaps.lab.schemas import ToyQuestion
from torchcaps.lab.weights import NoWeightsError, Shelf, as_numbers
from torchcaps.training import predict

CAPSULES = ("matrix_capsnet_small", "toys")
CNN = ("pooled_cnn", "toys")


def toys(shelf: Shelf) -> dict[str, Any]:
    """The toys there are, where they can be seen from, and which of this training saw."""
    return {
        "categories": list(CATEGORIES),
        "instances": INSTANCES,
        "azimuths": [azimuth_degrees(code) for code in AZIMUTHS],
        "elevations": [elevation_degrees(code) for code in ELEVATIONS],
        "lightings": list(LIGHTINGS),
        "trained": trained_views(shelf),
    }


def trained_views(shelf: Shelf) -> dict[str, Any]:
    """What the capsule network saw, as its card tells: all views, unless it was kept to familiar ones."""
    try:
        told = shelf[CAPSULES].card.facts.get("data_options") or {}
    except NoWeightsError:
        told = {}
    kept = told.get("viewpoint")
    azimuths = told.get("azimuths") or (FAMILIAR["azimuth"] if kept == "azimuth" else AZIMUTHS)
    elevations = told.get("elevations") or (FAMILIAR["elevation"] if kept == "elevation" else ELEVATIONS)
    return {
        "azimuths": [azimuth_degrees(code) for code in azimuths],
        "elevations": [elevation_degrees(code) for code in elevations],
        "instances": list(SPLIT_INSTANCES["train"]),
    }


def toy(shelf: Shelf, asked: ToyQuestion) -> dict[str, Any]:
    """Render a toy and let both networks say what it is."""
    trained, rival = shelf[CAPSULES], shelf[CNN]
    picture = render(asked.category, asked.instance, asked.azimuth, asked.elevation, asked.lighting)
    image = picture.to(torch.float32) / 255
    output = predict(trained.model, trained.prepare(image))
    rivals = predict(rival.model, rival.prepare(image))
    # Both learned by cross-entropy, which looks at differences of logits only: activations one by one may all
    # be near 1, and shares say what the network means.
    ours, theirs = (said.logits[0].softmax(0) for said in (output, rivals))
    best = int(ours.argmax())
    pose = class_capsules(output).pose[0, best]
    size = isqrt(pose.numel())
    return {
        "image": as_numbers(image, 3),
        "capsules": {
            "best": best,
            "scores": as_numbers(ours),
            "pose": as_numbers(pose.reshape(size, size)),
            "pose_size": size,
        },
        "cnn": {"best": int(theirs.argmax()), "scores": as_numbers(theirs)},
    }

"""Turn a toy: render a toy from any viewpoint, and recognize it with matrix capsules and with a CNN."""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor

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
from torchcaps.lab.introspection import class_capsules
from torchcaps.lab.model_store import MissingWeightsError, ModelStore
from torchcaps.lab.schemas import (
    ClassScores,
    ToyCapsules,
    ToyRequest,
    ToyResponse,
    ToysResponse,
    ToyTurnRequest,
    ToyTurnResponse,
    TrainingViews,
    to_list,
)
from torchcaps.lab.toy_accuracy import load_accuracy
from torchcaps.training import predict

CAPSULES = ("matrix_capsnet_small", "toys")
CNN = ("pooled_cnn", "toys")


def list_toys(store: ModelStore) -> ToysResponse:
    """Available toys and viewpoints, those used in training, and the accuracy for each azimuth."""
    return ToysResponse(
        categories=list(CATEGORIES),
        instances=INSTANCES,
        azimuths=[azimuth_degrees(code) for code in AZIMUTHS],
        elevations=[elevation_degrees(code) for code in ELEVATIONS],
        lightings=list(LIGHTINGS),
        trained=training_views(store),
        accuracy=load_accuracy(),
    )


def training_views(store: ModelStore) -> TrainingViews:
    """The training set of the capsule network, from its card: all viewpoints unless the card names fewer."""
    try:
        options = store[CAPSULES].card.facts.get("data_options") or {}
    except MissingWeightsError:
        options = {}
    viewpoint = options.get("viewpoint")
    azimuths = options.get("azimuths") or (FAMILIAR["azimuth"] if viewpoint == "azimuth" else AZIMUTHS)
    elevations = options.get("elevations") or (
        FAMILIAR["elevation"] if viewpoint == "elevation" else ELEVATIONS
    )
    return TrainingViews(
        azimuths=[azimuth_degrees(code) for code in azimuths],
        elevations=[elevation_degrees(code) for code in elevations],
        instances=list(SPLIT_INSTANCES["train"]),
    )


def recognize(store: ModelStore, request: ToyRequest) -> ToyResponse:
    """Render a toy, and classify it with both networks."""
    network, cnn = store[CAPSULES], store[CNN]
    picture = render(request.category, request.instance, request.azimuth, request.elevation, request.lighting)
    image = picture.to(torch.float32) / 255
    output = predict(network.model, network.prepare(image))
    # Both networks were trained with cross-entropy, which depends on differences of logits only: all
    # activations may be near 1, so the softmax of the logits is the meaningful score.
    scores = output.logits[0].softmax(0)
    cnn_scores = predict(cnn.model, cnn.prepare(image)).logits[0].softmax(0)
    best = int(scores.argmax())
    pose = class_capsules(output).pose[0, request.category]
    size = isqrt(pose.numel())
    return ToyResponse(
        image=to_list(image, 3),
        capsules=ToyCapsules(
            best=best, scores=to_list(scores), pose=to_list(pose.reshape(size, size)), pose_size=size
        ),
        cnn=ClassScores(best=int(cnn_scores.argmax()), scores=to_list(cnn_scores)),
    )


@torch.no_grad()
def turn(store: ModelStore, request: ToyTurnRequest) -> ToyTurnResponse:
    """The pose of a toy's own class from every azimuth, and how far a turn and the light move it."""
    network = store[CAPSULES]
    azimuths = [azimuth_degrees(code) for code in AZIMUTHS]
    views = [(azimuth, request.lighting) for azimuth in azimuths]
    views += [(request.azimuth, lighting) for lighting in LIGHTINGS]
    pictures = torch.stack(
        [
            render(request.category, request.instance, azimuth, request.elevation, lighting)
            for azimuth, lighting in views
        ]
    )
    images = torch.cat([network.prepare(picture.to(torch.float32) / 255) for picture in pictures])
    poses = class_capsules(predict(network.model, images)).pose[:, request.category].flatten(1)
    around, lit = poses[: len(azimuths)], poses[len(azimuths) :]
    return ToyTurnResponse(
        azimuths=azimuths,
        poses=to_list(around),
        turn_moves=largest_move(around),
        light_moves=largest_move(lit),
    )


def largest_move(poses: Tensor) -> float:
    """The largest distance between two of the poses `[N, D]`, as a share of their mean norm.

    >>> largest_move(torch.tensor([[1.0, 0.0], [1.0, 0.5], [1.0, 0.1]]))
    0.4803
    """
    return round(float(torch.cdist(poses, poses).max() / poses.norm(dim=1).mean().clamp(min=1e-12)), 4)

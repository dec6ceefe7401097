"""Turn a toy: render a toy from any viewpoint, and recognize it with matrix capsules and with a CNN."""

from __future__ import annotations

from math import isqrt

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
from torchcaps.lab.introspection import class_capsules
from torchcaps.lab.model_store import MissingWeightsError, ModelStore
from torchcaps.lab.schemas import (
    ClassScores,
    ToyCapsules,
    ToyRequest,
    ToyResponse,
    ToysResponse,
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
    pose = class_capsules(output).pose[0, best]
    size = isqrt(pose.numel())
    return ToyResponse(
        image=to_list(image, 3),
        capsules=ToyCapsules(
            best=best, scores=to_list(scores), pose=to_list(pose.reshape(size, size)), pose_size=size
        ),
        cnn=ClassScores(best=int(cnn_scores.argmax()), scores=to_list(cnn_scores)),
    )

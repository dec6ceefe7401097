"""Overlap: recognize two overlapping digits with a capsule network and with a CNN."""

from __future__ import annotations

import torch

from torchcaps.lab.introspection import class_capsules
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import CapsulePair, OverlapRequest, OverlapResponse, ScorePair, to_list
from torchcaps.training import predict

CAPSULES = ("capsnet_small", "multimnist")
CNN = ("capsnet_cnn", "multimnist")


@torch.no_grad()
def recognize(store: ModelStore, request: OverlapRequest) -> OverlapResponse:
    """The two best classes of each network, and a reconstruction from each of the two longest capsules."""
    network, cnn = store[CAPSULES], store[CNN]
    output = predict(network.model, network.prepare(request.image))
    scores = predict(cnn.model, cnn.prepare(request.image)).scores[0]
    capsules = class_capsules(output)
    best = output.scores[0].topk(2).indices
    images = [network.model.reconstruct(capsules, target.reshape(1))[0, 0] for target in best]
    return OverlapResponse(
        capsules=CapsulePair(
            best=best.tolist(),
            lengths=to_list(output.scores[0]),
            reconstructions=[to_list(image) for image in images],
        ),
        cnn=ScorePair(best=scores.topk(2).indices.tolist(), scores=to_list(scores)),
    )

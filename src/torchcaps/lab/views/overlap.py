"""Overlap: recognize two digits that lie over each other, with capsules and with a CNN."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps.lab.introspection import Inspection, class_capsules, inspect_last_layer, sent_by_position
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.schemas import CapsulePair, OverlapRequest, OverlapResponse, ScorePair, to_list
from torchcaps.lab.views.draw import field_centers
from torchcaps.training import predict

CAPSULES = ("capsnet_small", "multimnist")
CNN = ("capsnet_cnn", "multimnist")


@torch.no_grad()
def recognize(store: ModelStore, request: OverlapRequest) -> OverlapResponse:
    """The two best classes of each network; of the capsules also what they draw, and who gets which votes."""
    network, cnn = store[CAPSULES], store[CNN]
    inspection = inspect_last_layer(network.model, network.prepare(request.image))
    output = inspection.output
    scores = predict(cnn.model, cnn.prepare(request.image)).scores[0]
    capsules = class_capsules(output)
    best = output.scores[0].topk(2).indices
    images = [network.model.reconstruct(capsules, target.reshape(1))[0, 0] for target in best]
    places, factor = lead(inspection, *best.tolist())
    return OverlapResponse(
        capsules=CapsulePair(
            best=best.tolist(),
            lengths=to_list(output.scores[0]),
            reconstructions=[to_list(image) for image in images],
            lead=to_list(places),
            factor=round(factor, 2),
            field_centers=field_centers(network.model),
        ),
        cnn=ScorePair(best=scores.topk(2).indices.tolist(), scores=to_list(scores)),
    )


def lead(inspection: Inspection, one: int, two: int) -> tuple[Tensor, float]:
    """How much more each position sends to one class than to another in the last iteration, `[h, w]`.

    Returns:
        The differences, of which the largest is scaled to 1 or -1, and the largest factor between the two.
    """
    sent = sent_by_position(inspection, inspection.layer.history(inspection.children))[-1]
    difference = sent[one] - sent[two]
    factor = (sent[one] / sent[two].clamp(min=1e-12)).log().abs().max().exp()
    return difference / difference.abs().max().clamp(min=1e-12), float(factor)

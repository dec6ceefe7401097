"""Attack: the fast gradient sign method on a capsule network and on a CNN with the same convolutions."""

from __future__ import annotations

import torch

from torchcaps.attacks import fgsm
from torchcaps.lab.model_store import LoadedModel, ModelStore
from torchcaps.lab.schemas import AttackRequest, AttackResponse, AttackResult, to_list
from torchcaps.training import predict

CAPSULES = ("shared_capsnet", "mnist")
CNN = ("pooled_cnn", "mnist")


def attack(store: ModelStore, request: AttackRequest) -> AttackResponse:
    """Attack both networks, each with its own gradient."""
    capsules, cnn = store[CAPSULES], store[CNN]
    return AttackResponse(capsules=attack_network(capsules, request), cnn=attack_network(cnn, request))


def attack_network(network: LoadedModel, request: AttackRequest) -> AttackResult:
    """Attack one network; its own prediction serves as the label, because the true class is not known."""
    image = network.prepare(request.image)
    before = predict(network.model, image).scores.argmax(1)
    attacked = fgsm(network.model, image, before, request.epsilon)
    scores = predict(network.model, attacked).scores[0]
    # Less than the full step where clipping to black or white cut it short.
    perturbation = (attacked - image) / max(request.epsilon, 1e-6)
    return AttackResult(
        before=int(before),
        after=int(scores.argmax()),
        scores=to_list(scores),
        image=to_list(attacked[0, 0]),
        perturbation=to_list(torch.clamp(perturbation[0, 0], -1, 1)),
    )

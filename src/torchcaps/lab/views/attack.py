"""Attack: scores of a capsule network and of a CNN with the same convolutions, against the largest change."""

from __future__ import annotations

import torch
from torch import Tensor

from torchcaps.attacks import fgsm, pgd
from torchcaps.lab.model_store import LoadedModel, ModelStore
from torchcaps.lab.schemas import AttackCurve, AttackRequest, AttackResponse, to_bytes, to_list
from torchcaps.training import predict

CAPSULES = ("shared_capsnet", "mnist")
CNN = ("pooled_cnn", "mnist")
# FGSM needs one gradient for all ε, PGD one for each step and ε: it gets fewer, to answer within a second.
EPSILONS = {"fgsm": [step / 50 for step in range(26)], "pgd": [step / 20 for step in range(11)]}
STEPS = {"fgsm": 1, "pgd": 10}


def attack(store: ModelStore, request: AttackRequest) -> AttackResponse:
    """Attack both networks with every ε, each with its own gradient."""
    capsules, cnn = store[CAPSULES], store[CNN]
    return AttackResponse(
        epsilons=EPSILONS[request.method],
        steps=STEPS[request.method],
        capsules=attack_network(capsules, request),
        cnn=attack_network(cnn, request),
    )


def attack_network(network: LoadedModel, request: AttackRequest) -> AttackCurve:
    """Attack one network; its own prediction serves as the label, because the true class is not known."""
    image = network.prepare(request.image)
    clean = predict(network.model, image).scores
    before = int(clean.argmax())
    epsilons = torch.tensor(EPSILONS[request.method])
    attacked = attack_images(network, image, before, request.method, epsilons)
    scores = predict(network.model, attacked).scores
    scores[0] = clean[0]  # nothing changed, but for rounding
    after = scores.argmax(1)
    changed = (after != before).nonzero()
    return AttackCurve(
        before=before,
        after=after.tolist(),
        changes_at=float(to_list(epsilons[changed[0]])[0]) if len(changed) else None,
        scores=to_list(scores),
        images=to_bytes(attacked[:, 0]),
    )


def attack_images(network: LoadedModel, image: Tensor, label: int, method: str, epsilons: Tensor) -> Tensor:
    """The attacked image for each ε, `[E, 1, H, W]`."""
    model, count = network.model, len(epsilons)
    if method == "fgsm":
        # The sign of the gradient does not depend on ε: a whole step shows it.
        sign = fgsm(model, image, torch.tensor([label]), 1.0, bounds=(-2.0, 2.0)) - image
        return (image + epsilons[:, None, None, None] * sign).clamp(0, 1)
    generator = torch.Generator().manual_seed(0)  # the same drawing gives the same curve
    labels = torch.full((count,), label)
    images = image.expand(count, -1, -1, -1)
    return pgd(model, images, labels, epsilons, steps=STEPS[method], generator=generator)

"""Draw a digit and see who sends where; turn the numbers of its pose and see it follow."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from torchcaps.capsules import Capsules
from torchcaps.lab.looking import Seen, class_capsules, look
from torchcaps.lab.schemas import DIGIT, DrawQuestion, TweakQuestion
from torchcaps.lab.weights import NoWeightsError, Shelf, as_numbers
from torchcaps.models import Model

MODEL = ("capsnet_small", "mnist")


def draw(shelf: Shelf, asked: DrawQuestion) -> dict[str, Any]:
    """Read a digit: lengths and poses of the class capsules, the best one drawn, couplings over the image."""
    begun = time.perf_counter()
    trained = shelf[MODEL]
    seen = look(trained.model, trained.prepare(asked.image))
    capsules = class_capsules(seen.output)
    best = int(capsules.activation[0].argmax())
    drawn = seen.output.reconstruction
    if drawn is None:
        drawn = trained.model.reconstruct(capsules, torch.tensor([best]))
    poses = as_numbers(capsules.pose[0])
    return {
        "best": best,
        "lengths": as_numbers(capsules.activation[0]),
        "reconstruction": as_numbers(drawn[0, 0]),
        "pose": poses[best],
        "poses": poses,
        "grid": list(seen.children.activation.shape[1:3]),
        "places": field_centers(trained.model),
        "couplings": couplings(seen),
        "elapsed_ms": round(1000 * (time.perf_counter() - begun), 1),
    }


def field_centers(model: Model) -> dict[str, float]:
    """Where in the image the capsules' fields are centered: pixel of the first, and pixels to the next.

    >>> from torchcaps.models import create_model
    >>> field_centers(create_model("capsnet_small"))
    {'first': 8.0, 'step': 2}
    """
    first, step = 0.0, 1
    for conv in (module for module in model.modules() if isinstance(module, nn.Conv2d)):
        first += step * ((conv.kernel_size[0] - 1) / 2 - int(conv.padding[0]))
        step *= conv.stride[0]
    return {"first": first, "step": step}


@torch.no_grad()
def couplings(seen: Seen) -> list[Any]:
    r"""How much of what stands at each place goes to each class, `[iterations, classes, h, w]`.

    Coupling times the child's length, :math:`c_{ij} \|u_i\|`, added up over the types at a place, and scaled
    to largest value 1 over all iterations.
    """
    _, height, width, types = seen.children.activation.shape
    steps = seen.layer.history(seen.children)
    coupling = torch.stack([step.coupling[0] for step in steps if step.coupling is not None])
    sent = coupling * seen.children.activation.reshape(1, -1, 1)
    places = sent.unflatten(1, (height, width, types)).sum(3).permute(0, 3, 1, 2)
    return as_numbers(places / places.amax().clamp(min=1e-12))


@torch.no_grad()
def tweak(shelf: Shelf, asked: TweakQuestion) -> dict[str, Any]:
    """Draw the class capsule `target` as if it had this pose."""
    trained = shelf[MODEL]
    pose = torch.zeros(1, trained.model.num_classes, len(asked.pose))
    pose[0, asked.target] = torch.tensor(asked.pose)
    drawn = trained.model.reconstruct(Capsules.from_vectors(pose), torch.tensor([asked.target]))
    return {"reconstruction": as_numbers(drawn[0, 0])}


def warm_up(shelf: Shelf) -> None:
    """Read an empty canvas: the first pass loads parts of PyTorch, which nobody who draws should wait for."""
    with suppress(NoWeightsError):
        draw(shelf, DrawQuestion(image=[[0.0] * DIGIT] * DIGIT))

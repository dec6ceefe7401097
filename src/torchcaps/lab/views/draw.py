"""Draw: recognize a digit and show its routing. Tweak: reconstruct a digit from an edited pose."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from torchcaps.capsules import Capsules
from torchcaps.lab.introspection import (
    Inspection,
    class_capsules,
    inspect_last_layer,
    sent_by_position,
)
from torchcaps.lab.model_store import MissingWeightsError, ModelStore
from torchcaps.lab.schemas import (
    DIGIT_SIZE,
    CapsuleRequest,
    CapsuleResponse,
    DrawRequest,
    DrawResponse,
    FieldCenters,
    TweakRequest,
    TweakResponse,
    to_bytes,
    to_list,
)
from torchcaps.models import Model
from torchcaps.routing import RoutingOutput

MODEL = ("capsnet_small", "mnist")
OFFSETS = [step / 20 for step in range(-5, 6)]


def recognize(store: ModelStore, request: DrawRequest) -> DrawResponse:
    """Lengths and poses of the class capsules, the reconstruction from the longest, and the couplings."""
    start = time.perf_counter()
    network = store[MODEL]
    inspection = inspect_last_layer(network.model, network.prepare(request.image))
    capsules = class_capsules(inspection.output)
    best = int(capsules.activation[0].argmax())
    reconstruction = inspection.output.reconstruction
    if reconstruction is None:
        reconstruction = network.model.reconstruct(capsules, torch.tensor([best]))
    poses = to_list(capsules.pose[0])
    maps = feature_maps(network.model, network.prepare(request.image))
    steps = inspection.layer.history(inspection.children)
    return DrawResponse(
        best=best,
        lengths=to_list(capsules.activation[0]),
        reconstruction=to_list(reconstruction[0, 0]),
        pose=poses[best],
        poses=poses,
        history=to_list(torch.stack([step.pose[0] for step in steps])),
        num_features=len(maps),
        features=to_list(strongest(maps), 2),
        primary=to_list(inspection.children.activation[0].permute(2, 0, 1), 3),
        grid=list(inspection.children.activation.shape[1:3]),
        field_centers=field_centers(network.model),
        couplings=couplings(inspection, steps),
        capsule=describe_capsule(inspection, steps),
        elapsed_ms=round(1000 * (time.perf_counter() - start), 1),
    )


@torch.no_grad()
def feature_maps(model: Model, image: Tensor) -> Tensor:
    """What the first convolution computes for one image, `[channels, H, W]`."""
    convolution = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
    return torch.relu(convolution(image))[0]


def strongest(maps: Tensor, count: int = 8) -> Tensor:
    """The maps with the largest sums in the order of their channels; the largest value of all is scaled to 1.

    >>> strongest(torch.stack([torch.full((2, 2), value) for value in (0.0, 4.0, 1.0, 2.0)]), 2)[:, 0, 0]
    tensor([1.0000, 0.5000])
    """
    chosen = maps[maps.sum((1, 2)).topk(min(count, len(maps))).indices.sort().values]
    return chosen / chosen.amax().clamp(min=1e-12)


def field_centers(model: Model) -> FieldCenters:
    """Where the receptive fields of the primary capsules lie in the image.

    >>> from torchcaps.models import create_model
    >>> field_centers(create_model("capsnet_small"))
    FieldCenters(first=8.0, step=2.0, size=17)
    """
    first, step, size = 0.0, 1, 1
    for conv in (module for module in model.modules() if isinstance(module, nn.Conv2d)):
        first += step * ((conv.kernel_size[0] - 1) / 2 - int(conv.padding[0]))
        size += step * (conv.kernel_size[0] - 1)
        step *= conv.stride[0]
    return FieldCenters(first=first, step=step, size=size)


def couplings(inspection: Inspection, steps: list[RoutingOutput]) -> list[Any]:
    """What `sent_by_position` gives; the largest value over all iterations is scaled to 1."""
    grid = sent_by_position(inspection, steps)
    return to_list(grid / grid.amax().clamp(min=1e-12))


def inspect_capsule(store: ModelStore, request: CapsuleRequest) -> CapsuleResponse:
    """The votes of one primary capsule for a digit."""
    network = store[MODEL]
    inspection = inspect_last_layer(network.model, network.prepare(request.image))
    steps = inspection.layer.history(inspection.children)
    return describe_capsule(inspection, steps, (request.row, request.column, request.type))


@torch.no_grad()
def describe_capsule(
    inspection: Inspection, steps: list[RoutingOutput], place: tuple[int, int, int] | None = None
) -> CapsuleResponse:
    """What one primary capsule votes for, and where its votes go.

    Args:
        inspection: of one image.
        steps: the iterations of its routing.
        place: row, column and type of the capsule; without it the one that sends most to the longest capsule.

    Raises:
        ValueError: if there is no capsule at this place.
    """
    children, step = inspection.children, steps[-1]
    shape = children.activation.shape[1:]
    couplings = torch.stack([each.coupling[0] for each in steps if each.coupling is not None])
    coupling = couplings[-1]
    if place is None:
        chosen = int(coupling[:, step.activation[0].argmax()].argmax())
    elif all(at < size for at, size in zip(place, shape, strict=True)):
        chosen = (place[0] * shape[1] + place[1]) * shape[2] + place[2]
    else:
        raise ValueError(f"there is no capsule at {place}: the grid has the shape {tuple(shape)}")
    vote = inspection.layer.votes(children).tensor()[0, 0, chosen]
    return CapsuleResponse(
        row=chosen // (shape[1] * shape[2]),
        column=chosen // shape[2] % shape[1],
        type=chosen % shape[2],
        length=round(float(children.activation.flatten()[chosen]), 4),
        votes=to_list(vote),
        products=to_list(torch.stack([(vote * each.pose[0]).sum(-1) for each in steps])),
        shares=to_list(couplings[:, chosen]),
    )


@torch.no_grad()
def reconstruct(store: ModelStore, request: TweakRequest) -> TweakResponse:
    """The decoder's images for a pose of the class capsule `target`, and with one number of it changed.

    The range and the steps are those of Figure 4 of Sabour et al. 2017.
    """
    model, pose = store[MODEL].model, torch.tensor(request.pose)
    size = len(pose)
    changes = torch.tensor(OFFSETS)[:, None] * torch.eye(size)[:, None]  # [dimensions, offsets, pose]
    changed = torch.cat([pose[None], (pose + changes).flatten(0, 1)])
    poses = torch.zeros(len(changed), model.num_classes, size)
    poses[:, request.target] = changed
    images = model.reconstruct(Capsules.from_vectors(poses), torch.full((len(changed),), request.target))
    return TweakResponse(
        reconstruction=to_list(images[0, 0]), offsets=OFFSETS, strips=to_bytes(images[1:, 0])
    )


def warm_up(store: ModelStore) -> None:
    """Recognize an empty image, because the first forward pass is slow, and describe all networks."""
    with suppress(MissingWeightsError):
        recognize(store, DrawRequest(image=[[0.0] * DIGIT_SIZE] * DIGIT_SIZE))
    store.info()

"""Your run: what the network of a run says about an image, and which capsules made it say so."""

from __future__ import annotations

import base64
import binascii

import torch
from torch import Tensor

from torchcaps.lab.introspection import class_capsules
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.run import LabRun, RunWeightsError
from torchcaps.lab.schemas import (
    ClassMap,
    InputsResponse,
    PackedImage,
    PathNode,
    RunImageRequest,
    RunImageResponse,
    RunResponse,
    to_list,
)
from torchcaps.layers import CapsuleLayer
from torchcaps.models import Model, PartsCapsNet
from torchcaps.parsing import Names, Node, ParseTree
from torchcaps.parsing import parse as parse_image
from torchcaps.training import RunError, predict
from torchcaps.training.prediction import Predictor

MAX_PIXELS = 16_000_000
CHILDREN = 3


def describe(run: LabRun, store: ModelStore) -> RunResponse:
    """The run as it is now, with its newest weights.

    Raises:
        RunWeightsError: the weights cannot be used.
    """
    try:
        run.refresh()
    except RunError as fault:
        raise RunWeightsError(str(fault)) from None
    store.run = run.network
    return run.info()


def images(run: LabRun) -> InputsResponse:
    """Some test images of the run."""
    return InputsResponse(source=f"test images of {run.recipe.data.name}", images=run.examples())


def read(run: LabRun, request: RunImageRequest) -> RunImageResponse:
    """Classify an image with the network of the run.

    Raises:
        RunWeightsError: there are no weights yet.
        ValueError: the image cannot be read.
    """
    try:
        predictor = run.predictor
    except RunError as fault:
        raise RunWeightsError(str(fault)) from None
    network = run.network
    assert network is not None
    pixels = read_pixels(predictor, request)
    if pixels.shape[0] != network.card.in_channels:
        raise ValueError(
            f"the network of this run reads images with {network.card.in_channels} channels, and this one "
            f"has {pixels.shape[0]}"
        )
    seen = network.adapt(pixels)
    prepared = network.preprocess.test(seen.unsqueeze(0))
    output = predict(network.model, prepared)
    scores = network.shown_scores(output)[0]
    capsules = None if output.capsules is None else class_capsules(output)
    reconstruction = None
    if capsules is not None and network.model.decoder is not None:
        reconstruction = network.model.reconstruct(capsules, scores.argmax().reshape(1))[0]
    tree = parse_tree(network.model, prepared, Names.of_card(network.card))
    maps, map_range = ([], None) if tree is None else class_maps(tree)
    return RunImageResponse(
        seen=PackedImage.of(seen),
        best=int(scores.argmax()),
        scores=to_list(scores),
        activations=None if capsules is None else to_list(capsules.activation[0]),
        norms=None if capsules is None else to_list(capsules.pose[0].norm(dim=-1)),
        pose_dim=None if capsules is None else capsules.pose.shape[-1],
        paths=[] if tree is None else [describe_node(node) for node in (*tree.roots, *tree.loose)],
        maps=maps,
        map_range=map_range,
        reconstruction=None if reconstruction is None else PackedImage.of(reconstruction),
    )


def read_pixels(predictor: Predictor, request: RunImageRequest) -> Tensor:
    """The image as uint8 `[C, H, W]`; an image file is read as those of the training were."""
    if request.image is not None:
        return request.image.tensor()
    assert request.file is not None
    try:
        content = base64.b64decode(request.file, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("file: expected an image file in base64") from None
    return predictor.read("the image", max_pixels=MAX_PIXELS, content=content)


def parse_tree(model: Model, prepared: Tensor, names: Names) -> ParseTree | None:
    """The active paths of a capsule network; `None` for a CNN."""
    if not isinstance(model, PartsCapsNet) and not any(
        isinstance(module, CapsuleLayer) for module in model.modules()
    ):
        return None
    return parse_image(model, prepared, names=names, children=CHILDREN)[0]


def describe_node(node: Node) -> PathNode:
    """A node of the tree and all below it."""
    return PathNode(
        name=node.name,
        presence=round(node.presence, 4),
        coupling=None if node.coupling is None else round(node.coupling, 4),
        share=None if node.share is None else round(node.share, 4),
        position=None if node.position is None else list(node.position),
        box=None if node.box is None else list(node.box),
        children=[describe_node(child) for child in node.children],
    )


def class_maps(tree: ParseTree) -> tuple[list[ClassMap], list[float] | None]:
    """The masks of the classes, from 0 for the least to 1 for the most that a place sends; and these two."""
    found = [(node.type, node.mask) for node in tree.roots if node.mask is not None]
    covered = torch.cat([mask[mask > 0] for _, mask in found]) if found else torch.zeros(0)
    if not len(covered):
        return [], None
    low, high = covered.min(), covered.max()
    maps = [
        ClassMap(kind=kind, mask=PackedImage.of(((mask - low) / (high - low).clamp(min=1e-12)).unsqueeze(0)))
        for kind, mask in found
    ]
    return maps, to_list(torch.stack([low, high]))

"""The whole training of a `parts_capsnet` in three stages, and its weights as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from torchcaps._files import digest, replaced_on_success
from torchcaps.data import load
from torchcaps.data.worlds.flat import SceneOptions, SceneStream, World, draw_world
from torchcaps.experiments.wholes.groups import measure_groups, train_groups
from torchcaps.experiments.wholes.parsing import measure_crowds, measure_scrambled
from torchcaps.experiments.wholes.parts import train_parts
from torchcaps.experiments.wholes.training import (
    TRAINED_ANGLES,
    align_frames,
    find_all_parts,
    measure_wholes,
    scene_images,
    train_wholes,
)
from torchcaps.models import Model, PartsCapsNet
from torchcaps.models.pretrained import FOLDER
from torchcaps.models.weights import ModelCard, load_weights, write_tensors
from torchcaps.training.evaluation import evaluate
from torchcaps.training.publish.ship import check_room, keep_entry, sample_of

MODEL = "parts_capsnet"
COMMAND = "python -m torchcaps.experiments.wholes"
# Scenes of loose parts: number in each step, and options. Large; small; with noise, clutter and texture.
# Sizes are those of parts in wholes of these scales. There are too many parts to lie apart, since parts of
# wholes touch.
PART_SCENES = (
    (10, SceneOptions(parts=7, scale=(0.45, 0.97))),
    (14, SceneOptions(parts=19, scale=(0.32, 0.55))),
    (8, SceneOptions(parts=11, scale=(0.35, 0.9), noise=0.08, clutter=4, texture=0.2)),
)
STEPS = 4800
SINGLE_SCENES = 1500


def part_streams(world: World, steps: int = STEPS, seed: int = 0) -> list[SceneStream]:
    """Scenes of loose parts, one stream for each of `PART_SCENES`."""
    return [
        SceneStream(
            world,
            "parts",
            batch_size=number,
            batches=steps,
            seed=len(PART_SCENES) * seed + stream,
            options=options,
        )
        for stream, (number, options) in enumerate(PART_SCENES)
    ]


def train_network(
    world: World,
    *,
    seed: int = 0,
    steps: int = STEPS,
    scenes: int = SINGLE_SCENES,
    log: Callable[[str], None] | None = None,
) -> PartsCapsNet:
    """Train parts on known poses of loose parts, then wholes, then groups, each from class labels alone.

    The true poses of wholes and groups are used for one thing: to choose the frame in which poses are
    written, see `align_frames`.

    Args:
        world: such as `SHAPES`.
        seed: of the first weights, the scenes and the training.
        steps: of the detector's training.
        scenes: number of single wholes, at angles of ±30°.
        log: gets lines about the progress.
    """
    torch.manual_seed(seed)
    model = PartsCapsNet(
        num_classes=len(world.wholes),
        in_channels=1,
        image_size=64,
        kinds=len(world.parts),
        groups=len(world.groups),
    )
    train_parts(model.detector, part_streams(world, steps, seed=seed), log=log)
    train_upper(model, world, seed=seed, scenes=scenes, log=log)
    return model.eval()


def train_upper(
    model: PartsCapsNet,
    world: World,
    *,
    seed: int = 0,
    scenes: int = SINGLE_SCENES,
    log: Callable[[str], None] | None = None,
) -> None:
    """The stages after the detector: wholes on the parts that it finds, groups on the wholes."""
    single = draw_world(world, "single", scenes, seed=seed, options=SceneOptions(angle=TRAINED_ANGLES))
    parts = find_all_parts(model, scene_images(single))
    train_wholes(model.wholes, parts, single.labels, seed=seed, log=log)
    align_frames(model.wholes, parts, single.labels, single.whole_pose[:, 0])
    if model.groups is not None:
        train_groups(model, world, seed=seed, log=log)


def measure_network(model: PartsCapsNet, world: World, *, count: int = 500, seed: int = 0) -> dict[str, Any]:
    """All measurements on the test split: wholes by condition, scrambled, crowds, groups."""
    result: dict[str, Any] = {
        "wholes": measure_wholes(model, world, count=count, seed=seed),
        "scrambled": measure_scrambled(model, world, count=count, seed=seed),
    }
    for kind in ("crowded", "twins", *(["ambiguous"] if world.groups else [])):
        result[kind] = measure_crowds(model, world, kind, count=count, seed=seed)._asdict()
    if world.groups:
        result["groups"] = measure_groups(model, world, count=count, seed=seed)._asdict()
    return result


def network_card(model: PartsCapsNet, world: World, command: str) -> ModelCard:
    """What must be known to use the weights. The facts name the kinds of parts and the types of groups."""
    names = {"kinds": list(world.part_names), "groups": list(world.group.names) if world.groups else []}
    return ModelCard(
        MODEL,
        {"kinds": len(world.parts), "groups": len(world.groups)},
        model.num_classes,
        model.in_channels,
        model.image_size,
        world.whole.names,
        facts={"data": world.name, "recipe": command, **names},
    )


def ship_network(
    model: Model,
    card: ModelCard,
    *,
    steps: int,
    seconds: float,
    options: Mapping[str, Any] | None = None,
    folder: Path = FOLDER,
) -> dict[str, Any]:
    """Add the weights to the package, in half precision, and test these.

    Args:
        model: trained.
        card: whose facts name the world and the command of the training.
        steps: of its training.
        seconds: that it took.
        options: of the test scenes.
        folder: of the weights, with its `index.json`.

    Returns:
        The entry of the index.
    """
    data, options = card.facts["data"], dict(options or {})
    file = f"{card.model}-{data}.safetensors"
    halves = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in model.state_dict().items()
    }
    with TemporaryDirectory() as temporary_folder:
        written = Path(temporary_folder) / file
        write_tensors(written, halves, asdict(card))
        check_room(file, written.stat().st_size, folder)
        halved, card = load_weights(written)
        test = load(data, "test", **options)
        entry = {
            "model": card.model,
            "data": data,
            "file": file,
            "sha256": digest(written),
            "num_params": sum(parameter.numel() for parameter in halved.parameters()),
            "bytes": written.stat().st_size,
            "recipe": card.facts["recipe"],
            "trained": {"steps": steps, "seconds": round(seconds, 1)},
            "metrics": {"test": evaluate(halved, test).summary()},
            "sample": sample_of(halved, card, test),
            "load": {"name": data, "split": "test", "options": options},
        }
        with replaced_on_success(folder / file) as temporary:
            temporary.write_bytes(written.read_bytes())
    keep_entry(entry, folder)
    return entry

"""The stages of learning without labels for parts; each is kept in a file, so that a study can continue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps._files import replaced_on_success
from torchcaps.data.worlds.flat import SceneOptions, Scenes, draw_world
from torchcaps.data.worlds.shapes import SHAPES
from torchcaps.experiments.framework.storage import file_name
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.wholes.training import (
    TRAINED_ANGLES,
    find_all_parts,
    scene_images,
    train_wholes,
)
from torchcaps.experiments.wholes.unlabeled.discovery import Discovery, Drawing, discover_parts
from torchcaps.experiments.wholes.unlabeled.dreams import train_on_dreams
from torchcaps.experiments.wholes.unlabeled.joint import train_jointly
from torchcaps.models import PartsCapsNet

KINDS = len(SHAPES.parts)
CHANNELS = 16


class Sizes(NamedTuple):
    """How much is drawn and trained.

    Attributes:
        images: unlabeled images that templates are learned from.
        tries: how often templates are learned; those that draw the images best are used.
        dream_steps: of the detector.
        wholes: labeled images of wholes.
        whole_steps: of the relations.
        joint_steps: of everything together.
        test: images for each condition.
    """

    images: int
    tries: int
    dream_steps: int
    wholes: int
    whole_steps: int
    joint_steps: int
    test: int


QUICK = Sizes(64, 1, 250, 400, 200, 20, 160)
FULL = Sizes(96, 3, 4000, 1500, 300, 60, 1000)


class Learned(NamedTuple):
    """A network and the templates that it learned with."""

    model: PartsCapsNet
    templates: Tensor
    drawing: Drawing


def keep(study: Study, name: str, compute: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """The tensors that `compute` returns, kept in a file of the study."""
    from safetensors.torch import load_file, save_file

    path = study.out / "trained" / f"{file_name(name)}.safetensors"
    if not path.is_file():
        study.check_deadline(f"before {name}")
        study.log(name)
        # Copies: a file cannot hold two tensors that share memory, as the last templates and their round do.
        tensors = {key: value.detach().clone().contiguous() for key, value in compute().items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_on_success(path) as temporary:
            save_file(tensors, temporary)
    return load_file(path)


def draw_singles(count: int, seed: int, split: str = "train", **options: Any) -> Scenes:
    """Scenes with one whole each, at trained angles unless `options` says otherwise."""
    chosen = SceneOptions(**{"angle": TRAINED_ANGLES, **options})
    return draw_world(SHAPES, "single", count, seed=seed, split=split, options=chosen)


def unlabeled_images(source: str, count: int, seed: int) -> Tensor:
    """Images `[N, 1, 64, 64]` of loose parts at all angles, or of wholes at trained angles."""
    if source == "wholes":
        return scene_images(draw_singles(count, seed))
    return scene_images(draw_world(SHAPES, "parts", count, seed=seed))


def learn_templates(study: Study, source: str, sizes: Sizes) -> tuple[Discovery, Tensor]:
    """Templates learned from unlabeled images: the best of some tries, and all errors.

    The try with the smallest drawing error of the same images is used: no label is needed for the choice.
    """
    images = unlabeled_images(source, sizes.images, study.seed)

    def once(number: int) -> Callable[[], dict[str, Tensor]]:
        def compute() -> dict[str, Tensor]:
            found = discover_parts(images, KINDS, seed=1000 * study.seed + number, log=study.log)
            rounds = {f"round.{index}": each for index, (each, _) in enumerate(found.history)}
            errors = torch.tensor([error for _, error in found.history])
            return {
                "templates": found.templates,
                **found.drawing._asdict(),
                "error": found.error,
                "errors": errors,
                **rounds,
            }

        return compute

    tries = [keep(study, f"templates of {source}, try {n}", once(n)) for n in range(sizes.tries)]
    errors = torch.stack([each["error"].mean() for each in tries])
    best = tries[int(errors.argmin())]
    history = [(best[f"round.{index}"], float(error)) for index, error in enumerate(best["errors"].tolist())]
    drawing = Drawing(best["kind"], best["pose"], best["brightness"])
    return Discovery(best["templates"], drawing, best["error"], history), errors


def learn_wholes(study: Study, source: str, found: Discovery, sizes: Sizes) -> Learned:
    """Way (c): a detector that learned from dreams alone, and wholes from class labels."""
    model = _new_model(study.seed)

    def detector() -> dict[str, Tensor]:
        train_on_dreams(
            model.detector,
            found.templates,
            found.drawing,
            steps=sizes.dream_steps,
            seed=study.seed,
            log=study.log,
        )
        return model.state_dict()

    def wholes() -> dict[str, Tensor]:
        scenes = draw_singles(sizes.wholes, study.seed + 1)
        parts = find_all_parts(model, scene_images(scenes))
        train_wholes(
            model.wholes, parts, scenes.labels, steps=sizes.whole_steps, seed=study.seed, log=study.log
        )
        return model.state_dict()

    model.load_state_dict(keep(study, f"detector of {source}", detector))
    model.load_state_dict(keep(study, f"wholes of {source}", wholes))
    return Learned(model.eval(), found.templates, found.drawing)


def learn_jointly(study: Study, source: str, learned: Learned, sizes: Sizes) -> Learned:
    """Way (b): detector, relations and templates together, from class labels and from drawing wholes."""
    model = _new_model(study.seed)

    def together() -> dict[str, Tensor]:
        model.load_state_dict(learned.model.state_dict())
        scenes = draw_singles(sizes.wholes, study.seed + 1)
        templates = train_jointly(
            model,
            learned.templates,
            learned.drawing,
            scene_images(scenes),
            scenes.labels,
            steps=sizes.joint_steps,
            seed=study.seed,
            log=study.log,
        )
        return {**model.state_dict(), "templates": templates}

    tensors = keep(study, f"together from {source}", together)
    templates = tensors.pop("templates")
    model.load_state_dict(tensors)
    return Learned(model.eval(), templates, learned.drawing)


def _new_model(seed: int) -> PartsCapsNet:
    torch.manual_seed(seed)
    return PartsCapsNet(
        num_classes=len(SHAPES.wholes), in_channels=1, image_size=64, kinds=KINDS, channels=CHANNELS
    )

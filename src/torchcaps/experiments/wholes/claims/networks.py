"""The networks that the claims compare, trained on the same loose parts and the same wholes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps.capsules import Instances
from torchcaps.data.worlds.flat import SceneOptions, Scenes, World, draw_world
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.wholes import baselines, fitting, parts, set_baselines, training
from torchcaps.experiments.wholes.baselines import ImageNetwork, make_trunk, resnet_detector, trunk_of
from torchcaps.experiments.wholes.fitting import Examples, Loss, fit, outputs
from torchcaps.experiments.wholes.network import STEPS, part_streams
from torchcaps.experiments.wholes.parts import train_parts
from torchcaps.experiments.wholes.set_baselines import PartMLP, SetTransformer
from torchcaps.experiments.wholes.stored import Trained, stored
from torchcaps.experiments.wholes.training import TRAINED_ANGLES, align_frames, find_all_parts, train_wholes
from torchcaps.layers import ConstellationCaps, constellation
from torchcaps.models import PartsCapsNet, create_model, list_pretrained, part_detector
from torchcaps.models.part_detector import PartDetector

# Wholes are learned at one scale, within ±30°, near the middle of the image.
TRAINED: dict[str, Any] = {"angle": TRAINED_ANGLES, "scale": (0.7, 0.7), "offset": (0.0, 0.1)}
# Scenes that are drawn beyond those needed, so that the same number of each type can be chosen.
SPARE = 200
ALL_ANGLES = (-180.0, 180.0)
# Side of scenes with several wholes, in pixels: in 64×64 pixels, the parts of four wholes have four pixels,
# and their angles cannot be seen.
CROWD_SIZE = 96
# What the ceiling is trained on, half of each: all angles, and all scales and places of the tests.
EVERYWHERE: tuple[dict[str, Any], ...] = (
    {"angle": ALL_ANGLES, "scale": (0.45, 0.7), "offset": (0.0, 0.3)},
    {"angle": ALL_ANGLES, "scale": (0.7, 0.97), "offset": (0.0, 0.03)},
)
CAPSULES, MLP, SET, CEILING = "capsules", "mlp", "set_transformer", "ceiling"
LABELS = {
    CAPSULES: "capsules",
    "dense": "CNN, dense layer",
    "dense_pretrained": "CNN, dense layer, pretrained on parts",
    "pooled": "CNN, average pooling",
    "pooled_pretrained": "CNN, average pooling, pretrained on parts",
    "resnet": "ResNet",
    "resnet_pretrained": "ResNet, pretrained on parts",
    MLP: "MLP on the found parts",
    SET: "set transformer on the found parts",
    CEILING: "CNN that has seen wholes everywhere (ceiling)",
}
"""What each network is called in reports, by its name in the numbers."""
CNNS = tuple(name for name in LABELS if name.startswith(("dense", "pooled", "resnet")))
ON_PARTS = (MLP, SET)


@dataclass(frozen=True)
class Form:
    """How large an experiment is.

    Attributes:
        channels: of the detector.
        part_steps: steps on loose parts.
        wholes: number of scenes with a whole to learn from.
        whole_steps: steps of the capsules on wholes.
        group_scenes: number of scenes with a group to learn from.
        group_steps: steps of the capsules on groups.
        cnn_steps: steps of a CNN on wholes.
        crowds: number of scenes with several wholes that a CNN learns from.
        crowd_steps: steps of that CNN.
        set_steps: steps of a network on found parts.
        validation: number of validation scenes.
        test: number of test scenes of each condition.
        cnns: which CNNs are trained.
        shipped: whether to take the part detector that is shipped, in worlds that have one, with its number
            of channels: it was trained as in the full form.
    """

    channels: int = 20
    part_steps: int = STEPS
    wholes: int = 3000
    whole_steps: int = 300
    group_scenes: int = 600
    group_steps: int = 150
    cnn_steps: int = 300
    crowds: int = 12_000
    crowd_steps: int = 1500
    set_steps: int = 2000
    validation: int = 400
    test: int = 2000
    cnns: tuple[str, ...] = CNNS
    shipped: bool = False


FULL = Form()
QUICK = Form(
    part_steps=600,
    wholes=600,
    whole_steps=100,
    group_scenes=200,
    group_steps=60,
    cnn_steps=120,
    crowds=600,
    crowd_steps=120,
    set_steps=500,
    validation=200,
    test=400,
    cnns=("dense_pretrained", "pooled"),
    shipped=True,
)


class Networks:
    """All networks of one study and one world, trained when they are first asked for.

    Args:
        study: gives the seed, and keeps what its results depend on.
        form: how large the networks are, and how long they are trained.
        world: where scenes come from.
        wholes: how scenes of single wholes look that all but the ceiling are trained on.
    """

    def __init__(self, study: Study, form: Form, world: World, wholes: Mapping[str, Any] = TRAINED) -> None:
        self.study, self.form, self.world = study, form, world
        self.options = SceneOptions(**wholes)
        self._scenes: dict[Any, Examples] = {}
        self._poses: dict[int, Tensor] = {}

    def draw(self, kind: str, count: int, split: str, **options: Any) -> Scenes:
        """New scenes; options that are not given are those of training on wholes."""
        changed = replace(self.options, **options)
        return draw_world(self.world, kind, count, seed=self.study.seed, split=split, options=changed)

    @cached_property
    def detector(self) -> Trained:
        """The part detector, trained on loose parts."""
        kinds, channels = len(self.world.parts), self.form.channels
        return self._pretrained("parts", lambda: PartDetector(1, kinds, channels))

    @cached_property
    def resnet_detector(self) -> Trained:
        """A ResNet, trained on the same loose parts with the same loss."""
        kinds, channels = len(self.world.parts), self.form.channels
        return self._pretrained("parts resnet", lambda: resnet_detector(kinds, channels))

    def capsules(self, count: int | None = None) -> PartsCapsNet:
        """Capsules that have seen `count` wholes; all by default."""
        model = self._assemble()
        model.wholes = self.relations(count).model
        return model

    def relations(self, count: int | None = None) -> Trained:
        """The relations between parts and wholes, learned from `count` wholes."""
        count, steps = count or self.form.wholes, self.form.whole_steps
        kinds, types = len(self.world.parts), len(self.world.wholes)

        def train(layer: ConstellationCaps) -> dict[str, Any]:
            found, target = self._load(CAPSULES, "train", count)
            train_wholes(layer, Instances(*found), target, steps=steps, seed=self.study.seed)
            align_frames(layer, Instances(*found), target, self._poses[count])
            found, target = self._load(CAPSULES, "validation", self.form.validation)
            return {"accuracy": accuracy(whole_logits(layer, Instances(*found)), target)}

        return stored(
            self.study,
            f"{self.world.name} capsules {count}",
            build=lambda: ConstellationCaps(kinds, types),
            train=train,
            settings={**self._settings(count), "steps": steps, "parts": self.detector.key},
            code=(constellation, training),
        )

    def baseline(self, name: str, count: int | None = None) -> Trained:
        """A network without capsules that has seen `count` wholes; all by default."""
        count = count or self.form.wholes
        steps = self.form.set_steps if name in ON_PARTS else self.form.cnn_steps
        settings = {**self._settings(count), "steps": steps, "parts": self._pretraining(name)}

        def train(model: nn.Module) -> dict[str, Any]:
            validation = self._load(name, "validation", self.form.validation)
            train = self._load(name, "train", count)
            facts = fit(model, train, validation, steps=steps, seed=self.study.seed)
            return {**facts, "accuracy": accuracy(outputs(model, validation.inputs), validation.target)}

        return stored(
            self.study,
            f"{self.world.name} {name} {count}",
            build=lambda: self._build(name, len(self.world.wholes)),
            train=train,
            settings=settings,
            code=(baselines, set_baselines, fitting),
        )

    def cnn(
        self,
        base: str,
        question: str,
        numbers: int,
        examples: Callable[[str, int], Examples],
        *,
        settings: Mapping[str, Any],
        loss: Loss = F.cross_entropy,
        count: int | None = None,
        steps: int | None = None,
    ) -> Trained:
        """A CNN that learns to answer another question about scenes.

        Args:
            base: which CNN, one of `CNNS`.
            question: a word for it.
            numbers: in an answer.
            examples: gives that many examples of a split.
            settings: what they depend on.
            loss: of answers and targets.
            count: number of examples to learn from; by default that of wholes.
            steps: of training; by default those of a CNN on wholes.
        """
        form = self.form
        count, steps = count or form.wholes, steps or form.cnn_steps

        def train(model: nn.Module) -> dict[str, Any]:
            train, validation = examples("train", count), examples("validation", form.validation)
            return fit(model, train, validation, steps=steps, seed=self.study.seed, loss=loss)

        return stored(
            self.study,
            f"{self.world.name} {question} {base}",
            build=lambda: self._build(base, numbers),
            train=train,
            settings={
                **settings,
                "count": count,
                "validation": form.validation,
                "steps": steps,
                "parts": self._pretraining(base),
            },
            code=(baselines, fitting),
        )

    def find_parts(self, images: Tensor) -> Instances:
        """What the detector finds in images uint8 `[N, 1, H, W]`."""
        return find_all_parts(self._assemble(), images.float() / 255)

    def logits(self, names: tuple[str, ...], images: Tensor) -> dict[str, Tensor]:
        """What each network says about images uint8 `[N, 1, H, W]`: logits `[N, types]` by name."""
        found = self.find_parts(images)
        result = {}
        for name in names:
            if name == CAPSULES:
                result[name] = whole_logits(self.capsules().wholes, found)
            else:
                result[name] = outputs(self.baseline(name).model, found if name in ON_PARTS else (images,))
        return result

    def _pretrained(self, name: str, build: Any) -> Trained:
        form, world = self.form, self.world
        streams = part_streams(world, form.part_steps, seed=self.study.seed)
        shipped = form.shipped and name == "parts" and _has_weights(world)

        def train(detector: PartDetector) -> None:
            if shipped:
                source = create_model("parts_capsnet", pretrained=world.name)
                detector.load_state_dict(source.detector.state_dict())  # type: ignore[union-attr]
            else:
                train_parts(detector, streams, log=self.study.log)

        return stored(
            self.study,
            f"{world.name} {name}",
            build=build,
            train=train,
            settings={"shipped": True}
            if shipped
            else {
                "scenes": [asdict(each.options or SceneOptions()) for each in streams],
                "batch_sizes": [each.batch_size for each in streams],
                "steps": form.part_steps,
                "channels": form.channels,
            },
            code=(part_detector, parts, baselines),
        )

    def _assemble(self) -> PartsCapsNet:
        form, world = self.form, self.world
        model = PartsCapsNet(
            num_classes=len(world.wholes),
            in_channels=1,
            image_size=self.options.size,
            kinds=len(world.parts),
            channels=form.channels,
        )
        model.detector = self.detector.model
        return model.eval()

    def _build(self, name: str, numbers: int) -> nn.Module:
        kinds, channels = len(self.world.parts), self.form.channels
        if name in ON_PARTS:
            return (PartMLP if name == MLP else SetTransformer)(kinds, numbers)
        is_resnet = name.startswith("resnet")
        trunk = make_trunk("resnet" if is_resnet else "detector", channels)
        if "pretrained" in name or name == CEILING:
            source = self.resnet_detector if is_resnet else self.detector
            trunk.load_state_dict(trunk_of(source.model).state_dict())
        head = "dense" if name.startswith("dense") or name == CEILING else "pooled"
        return ImageNetwork(trunk, 2 * channels, outputs=numbers, head=head)

    def _pretraining(self, name: str) -> str | None:
        """The key of the detector that a network uses or starts from."""
        if name in ON_PARTS or "pretrained" in name or name == CEILING:
            return (self.resnet_detector if name.startswith("resnet") else self.detector).key
        return None

    def _settings(self, count: int) -> dict[str, Any]:
        return {
            "scenes": asdict(self.options),
            "wholes": count,
            "validation": self.form.validation,
            "channels": self.form.channels,
        }

    def _load(self, name: str, split: str, count: int) -> Examples:
        """The scenes as a network sees them: images, or the parts that the detector finds."""
        sort = "parts" if name in (CAPSULES, *ON_PARTS) else "images"
        ceiling = name == CEILING
        if (sort, split, count, ceiling) not in self._scenes:
            ranges = EVERYWHERE if ceiling else ({},)
            drawn = [self.draw("single", count // len(ranges) + SPARE, split, **each) for each in ranges]
            images, labels = (
                torch.cat([getattr(each, key) for each in drawn]) for key in ("images", "labels")
            )
            chosen = balanced(labels, count)
            images, labels = images[chosen], labels[chosen]
            if split == "train" and not ceiling:
                self._poses[count] = drawn[0].whole_pose[chosen, 0].float()
            inputs = tuple(self.find_parts(images)) if sort == "parts" else (images,)
            self._scenes[sort, split, count, ceiling] = Examples(inputs, labels)
        return self._scenes[sort, split, count, ceiling]


def _has_weights(world: World) -> bool:
    """Whether a trained `parts_capsnet` of this world is shipped."""
    return any((each["model"], each["data"]) == ("parts_capsnet", world.name) for each in list_pretrained())


@torch.no_grad()
def whole_logits(layer: ConstellationCaps, found: Instances) -> Tensor:
    """The logits `[N, types]` of capsules on the parts of N images, a batch at a time."""
    batches = zip(*(values.split(200) for values in found))
    return torch.cat([layer(Instances(*batch)).logits for batch in batches])


def balanced(labels: Tensor, count: int) -> Tensor:
    """Indices of `count` rows with about as many of each class, the first ones of each.

    >>> balanced(torch.tensor([1, 1, 1, 0, 0, 1]), 4)
    tensor([0, 1, 3, 4])
    """
    same = labels.unsqueeze(1) == labels
    earlier = torch.tril(same, -1).sum(1)  # how many of its class come before
    return torch.sort(torch.argsort(earlier, stable=True)[:count]).values


def accuracy(logits: Tensor, target: Tensor) -> float:
    """Percent of rows whose largest logit is that of the target.

    >>> accuracy(torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
    50.0
    """
    return 100 * float((logits.argmax(1) == target).float().mean())

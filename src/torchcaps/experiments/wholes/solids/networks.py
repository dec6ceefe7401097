"""The networks that the claim about solids compares, trained on the same loose parts and the same wholes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from torch import Tensor, nn

from torchcaps.capsules import Capsules
from torchcaps.data.worlds.solids import (
    PARTS,
    WHOLES,
    SolidOptions,
    SolidScenes,
    composing,
    draw_solids,
    drawing,
    scenes,
    world,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.wholes import baselines, fitting, set_baselines
from torchcaps.experiments.wholes.baselines import ImageNetwork, resnet_detector
from torchcaps.experiments.wholes.claims.networks import (
    CAPSULES,
    CEILING,
    CNNS,
    MLP,
    SET,
    SPARE,
    accuracy,
    balanced,
)
from torchcaps.experiments.wholes.fitting import Examples, fit, outputs
from torchcaps.experiments.wholes.solids import parts, wholes
from torchcaps.experiments.wholes.solids.parts import find_solids, train_reader, train_solid_parts
from torchcaps.experiments.wholes.solids.wholes import SolidMLP, SolidSet, SolidWholes
from torchcaps.experiments.wholes.stored import Trained, stored
from torchcaps.models import solid_detector, solid_reader
from torchcaps.models.solid_detector import SolidDetector
from torchcaps.models.solid_reader import SolidReader

# What the scenes depend on besides the options.
WORLD = (world, composing, drawing, scenes)
TRAINED_AZIMUTHS = (-40.0, 40.0)
NOVEL_AZIMUTHS = (40.0, 320.0)
ALL_AZIMUTHS = (-180.0, 180.0)
ON_PARTS: dict[str, type[nn.Module]] = {CAPSULES: SolidWholes, MLP: SolidMLP, SET: SolidSet}
# Learning rates to choose from, on validation scenes at trained azimuths.
RATES = {CAPSULES: (1e-2, 3e-2)}
DEFAULT_RATES = (1e-3, 3e-3)


@dataclass(frozen=True)
class SolidForm:
    """How large the experiment is.

    Attributes:
        channels: of the detector.
        part_scenes: number of scenes of loose parts.
        part_steps: steps of a detector on them.
        reader_steps: steps of the reader on them.
        wholes: number of scenes with a whole to learn from.
        cnn_steps: steps of a CNN on wholes.
        pose_steps: steps of a network on found parts, capsules included.
        validation: number of validation scenes.
        test: number of test scenes at trained, and at new azimuths.
        cnns: which CNNs are trained.
    """

    channels: int = 24
    part_scenes: int = 12_000
    part_steps: int = 2400
    reader_steps: int = 2500
    wholes: int = 2000
    cnn_steps: int = 350
    pose_steps: int = 600
    validation: int = 400
    test: int = 1500
    cnns: tuple[str, ...] = CNNS


FULL = SolidForm()
QUICK = SolidForm(
    part_scenes=3000,
    part_steps=400,
    reader_steps=600,
    wholes=600,
    cnn_steps=120,
    pose_steps=300,
    validation=200,
    test=400,
    cnns=("dense_pretrained", "pooled"),
)


class SolidNetworks:
    """All networks of one study, trained when they are first asked for.

    Args:
        study: gives the seed, and keeps what its results depend on.
        form: how large the networks are, and how long they are trained.
    """

    def __init__(self, study: Study, form: SolidForm) -> None:
        self.study, self.form = study, form
        self.options = SolidOptions(azimuth=TRAINED_AZIMUTHS)
        self._examples: dict[Any, Examples] = {}

    def draw(self, count: int, split: str, azimuth: tuple[float, float] = TRAINED_AZIMUTHS) -> SolidScenes:
        """New scenes with one whole each."""
        options = replace(self.options, azimuth=azimuth)
        return draw_solids("single", count, seed=self.study.seed, split=split, options=options)

    @cached_property
    def loose_parts(self) -> SolidScenes:
        """The scenes of loose parts that all detectors are trained on."""
        self.study.log(f"drawing {self.form.part_scenes} scenes of loose parts")
        return draw_solids("parts", self.form.part_scenes, seed=self.study.seed, options=self.options)

    @cached_property
    def detector(self) -> Trained:
        """The part detector, trained on loose parts."""
        return self._detector("parts", lambda: SolidDetector(2, len(PARTS), self.form.channels))

    @cached_property
    def resnet_detector(self) -> Trained:
        """A ResNet, trained on the same loose parts with the same loss."""
        return self._detector("parts resnet", lambda: solid_resnet(self.form.channels))

    @cached_property
    def reader(self) -> Trained:
        """The reader of rotations, trained on the same loose parts."""
        form = self.form

        def train(reader: SolidReader) -> None:
            train_reader(
                reader, self.loose_parts, steps=form.reader_steps, seed=self.study.seed, log=self.study.log
            )

        return stored(
            self.study,
            "solids reader",
            build=lambda: SolidReader(len(PARTS), form.channels),
            train=train,
            settings={
                "scenes": asdict(self.options),
                "count": form.part_scenes,
                "steps": form.reader_steps,
                "channels": form.channels,
            },
            code=(solid_reader, parts, *WORLD),
        )

    def network(self, name: str) -> Trained:
        """A network by its name, trained on wholes at `TRAINED_AZIMUTHS`, the ceiling at all azimuths."""
        steps = self.form.pose_steps if name in ON_PARTS else self.form.cnn_steps
        rates = RATES.get(name, DEFAULT_RATES)

        def train(model: nn.Module) -> dict[str, Any]:
            train = self._load(name, "train", self.form.wholes)
            validation = self._load(name, "validation", self.form.validation)
            facts = fit(model, train, validation, steps=steps, rates=rates, seed=self.study.seed)
            return {**facts, "accuracy": accuracy(outputs(model, validation.inputs), validation.target)}

        return stored(
            self.study,
            f"solids {name}",
            build=lambda: self._build(name),
            train=train,
            settings={
                "scenes": asdict(self.options),
                "wholes": self.form.wholes,
                "validation": self.form.validation,
                "channels": self.form.channels,
                "steps": steps,
                "parts": self._pretraining(name),
                "reader": self.reader.key if name in ON_PARTS else None,
            },
            code=(baselines, set_baselines, fitting, wholes, *WORLD),
        )

    def logits(self, names: tuple[str, ...], images: Tensor, found: Capsules) -> dict[str, Tensor]:
        """What each network says about images uint8 `[N, 2, H, W]` with parts `found`: logits by name."""
        return {
            name: outputs(self.network(name).model, tuple(found) if name in ON_PARTS else (images,))
            for name in names
        }

    def find_parts(self, images: Tensor) -> Capsules:
        """What the detector finds in images uint8 `[N, 2, H, W]`."""
        return find_solids(self.detector.model, self.reader.model, images)

    def _detector(self, name: str, build: Callable[[], SolidDetector]) -> Trained:
        form = self.form

        def train(detector: SolidDetector) -> None:
            train_solid_parts(
                detector, self.loose_parts, steps=form.part_steps, seed=self.study.seed, log=self.study.log
            )

        return stored(
            self.study,
            f"solids {name}",
            build=build,
            train=train,
            settings={
                "scenes": asdict(self.options),
                "count": form.part_scenes,
                "steps": form.part_steps,
                "channels": form.channels,
            },
            code=(solid_detector, parts, baselines, *WORLD),
        )

    def _build(self, name: str) -> nn.Module:
        if name in ON_PARTS:
            return ON_PARTS[name]()
        is_resnet, channels = name.startswith("resnet"), self.form.channels
        detector = solid_resnet(channels) if is_resnet else SolidDetector(2, len(PARTS), channels)
        if "pretrained" in name or name == CEILING:
            source = self.resnet_detector if is_resnet else self.detector
            detector.load_state_dict(source.model.state_dict())
        head = "dense" if name.startswith("dense") or name == CEILING else "pooled"
        trunk = nn.Sequential(detector.first, detector.trunk)
        return ImageNetwork(trunk, detector.presence.in_channels, outputs=len(WHOLES), head=head)

    def _pretraining(self, name: str) -> str | None:
        """The key of the detector that a network uses or starts from."""
        if name in ON_PARTS or "pretrained" in name or name == CEILING:
            return (self.resnet_detector if name.startswith("resnet") else self.detector).key
        return None

    def _load(self, name: str, split: str, count: int) -> Examples:
        """The scenes as a network sees them: images, or the parts that the detector finds."""
        sort = "parts" if name in ON_PARTS else "images"
        ceiling = name == CEILING
        if (sort, split, ceiling) not in self._examples:
            drawn = self.draw(count + SPARE, split, ALL_AZIMUTHS if ceiling else TRAINED_AZIMUTHS)
            chosen = balanced(drawn.labels, count)
            images, labels = drawn.images[chosen], drawn.labels[chosen]
            inputs = tuple(self.find_parts(images)) if sort == "parts" else (images,)
            self._examples[sort, split, ceiling] = Examples(inputs, labels)
        return self._examples[sort, split, ceiling]


def solid_resnet(channels: int) -> SolidDetector:
    """The ResNet of the flat worlds as a detector of solids, with as many weights as that of `channels`.

    Example:
        >>> import torch
        >>> solid_resnet(8)(torch.rand(1, 2, 48, 48)).logits.shape
        torch.Size([1, 5, 12, 12])
    """
    narrow = max(1, 7 * channels // 8)  # it has more convolutions
    detector = SolidDetector(2, len(PARTS), narrow)
    convolutions = resnet_detector(1, narrow)
    detector.first, detector.trunk = convolutions.first, convolutions.trunk
    detector.first[0] = nn.Conv2d(2, narrow, 3, 2, padding=1, bias=False)
    return detector

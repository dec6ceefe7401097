from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_count
from torchcaps.data.imageset import ImageSet
from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.solids.composing import KINDS
from torchcaps.data.worlds.solids.drawing import draw_images
from torchcaps.data.worlds.solids.options import SolidOptions
from torchcaps.data.worlds.solids.world import PART_NAMES, WHOLE_NAMES

_CHUNK = 128  # scenes that are drawn together


@dataclass(frozen=True, eq=False)
class SolidScenes:
    """N stereo pairs and the exact truth about them.

    A pose is a 4×4 matrix [[s R, t], [0, 1]] that maps the coordinates of a part or a whole to the frame of
    the camera between the two eyes: x towards the camera, y to the right, z up, and the origin at the point
    that it looks at, 6 units away.

    Attributes:
        images: uint8 `[N, 2, size, size]`, the left camera first.
        labels: int64 `[N]`, the type of the whole; `[N, P]`, the kinds of loose parts.
        classes: the name of each label.
        part_mask: bool `[N, P]`.
        part_type: int64 `[N, P]`, index into `PART_NAMES`, 0 in padding.
        part_pose: float64 `[N, P, 4, 4]`.
        part_seen: int64 `[N, P, 2]`, rays of each eye that end on the part, four for each pixel.
        whole_pose: float64 `[N, 4, 4]`, the identity for loose parts.
        view: azimuth, elevation and turn of the camera in degrees, float64 `[N, 3]`; 0 for loose parts.
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    part_mask: Tensor
    part_type: Tensor
    part_pose: Tensor
    part_seen: Tensor
    whole_pose: Tensor
    view: Tensor

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, rows: slice | Tensor) -> SolidScenes:
        """Some of the scenes."""
        arrays = {name: value[rows] for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **arrays)  # type: ignore[arg-type]

    def image_set(self) -> ImageSet:
        """The images and labels as a data set, with the truth as metadata; poses are float32 there."""
        names = [each.name for each in fields(self) if each.name not in ("images", "labels", "classes")]
        truth = {name: getattr(self, name) for name in names}
        return ImageSet(
            self.images,
            self.labels,
            self.classes,
            {name: value.float() if value.is_floating_point() else value for name, value in truth.items()},
        )


def draw_solids(
    kind: str = "single",
    count: int = 16,
    *,
    seed: int = 0,
    start: int = 0,
    split: str = "train",
    options: SolidOptions | None = None,
) -> SolidScenes:
    """Draw the scenes `start` … `start + count - 1` of an endless sequence of stereo pairs.

    A scene depends on the kind, the split, the seed, its index and the options, and on nothing else: it has
    the same bits in a batch of any size.

    Args:
        kind: `"parts"` for loose parts or `"single"` for one whole.
        count: number of scenes.
        seed: names the sequence.
        start: index of the first scene.
        split: other splits have other scenes.
        options: see `SolidOptions`.

    Example:
        >>> scenes = draw_solids("parts", 3, options=SolidOptions(size=32, parts=2))
        >>> scenes.images.shape, scenes.part_pose.shape
        (torch.Size([3, 2, 32, 32]), torch.Size([3, 2, 4, 4]))
    """
    check_choice("kind", kind, tuple(KINDS))
    check_count("count", count)
    check_count("seed", seed, 0)
    check_count("start", start, 0)
    options = SolidOptions() if options is None else options
    chunks = []
    for first in range(start, start + count, _CHUNK):
        indices = range(first, min(first + _CHUNK, start + count))
        chunks.append(_draw(kind, SceneNumbers(f"solids/{kind}/{split}", seed, indices), options))
    truth = {name: torch.from_numpy(np.concatenate([each[name] for each in chunks])) for name in chunks[0]}
    whole = truth.pop("whole")
    labels = whole if kind == "single" else truth["part_type"]
    return SolidScenes(labels=labels, classes=WHOLE_NAMES if kind == "single" else PART_NAMES, **truth)


def _draw(kind: str, numbers: SceneNumbers, options: SolidOptions) -> dict[str, np.ndarray]:
    layout = KINDS[kind](numbers, options)
    light, lamp = numbers.uniform(*options.light), numbers.uniform(*options.lamp)
    pixels, seen = draw_images(layout.kind, layout.pose, light, lamp, options.size)
    if options.noise:
        pixels += np.float32(options.noise) * numbers.normal(2, options.size, options.size)
    return {
        "images": np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8),
        "part_mask": layout.kind >= 0,
        "part_type": np.maximum(layout.kind, 0),
        "part_pose": layout.pose,
        "part_seen": seen,
        "whole": layout.whole,
        "whole_pose": layout.whole_pose,
        "view": layout.view,
    }

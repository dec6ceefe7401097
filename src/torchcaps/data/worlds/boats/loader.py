from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_count
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.data.worlds.boats.drawing import draw
from torchcaps.data.worlds.boats.relations import WHOLES, pose_numbers
from torchcaps.data.worlds.boats.scenes import KINDS, Scene, scene

COUNT = {"train": 4000, "test": 1000}


@register_dataset("boats", random=True)
def boats(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    kind: str = "single",
    count: int | None = None,
    wholes: int = 4,
    size: int = 48,
    seed: int = 0,
) -> ImageSet:
    """Draw rectangles and triangles that make houses or boats, only by how they stand to each other.

    - `kind`: `"single"`, `"crowded"` or `"ambiguous"` scenes, see `scene`.
    - `count`: how many, 4,000 train and 1,000 test scenes unless told; more keep the first ones as they are.
    - `wholes`: houses and boats in a crowded scene.
    - `size`: images are `[N, 1, size, size]`.
    - `seed`: other numbers give other scenes. `data_dir` has no meaning here.

    Labels are the type of the whole, `[N]`, or of each whole, `[N, W]`, where there are several.

    Metadata, with P the most parts in a scene and padding where a mask is False: `part_mask` bool `[N, P]`;
    `part_type` int64 `[N, P]` (0 rectangle, 1 triangle); `part_pose` float32 `[N, P, 3, 3]`, and as x, y,
    angle, scale in `part_numbers` `[N, P, 4]`; `part_whole` int64 `[N, P]`, -1 for strays and padding.
    `whole_mask`, `whole_type`, `whole_pose`, `whole_numbers` alike, and `decoy_…` in ambiguous scenes.

    Example:
        >>> few = boats("test", kind="crowded", count=5)
        >>> few.images.shape, few.labels.shape, few.metadata["whole_pose"].shape
        (torch.Size([5, 1, 48, 48]), torch.Size([5, 4]), torch.Size([5, 4, 3, 3]))
    """
    check_choice("split", split, tuple(COUNT))
    check_choice("kind", kind, tuple(KINDS))
    check_count("wholes", wholes)
    check_count("size", size)
    count = COUNT[split] if count is None else count
    check_count("count", count)
    scenes = [scene(kind, seed=f"{seed}/{split}/{number}", wholes=wholes) for number in range(count)]
    metadata = _padded("part", scenes, lambda each: (each.part_type, each.part_pose))
    most = metadata["part_mask"].shape[1]
    metadata["part_whole"] = _pad([each.part_whole for each in scenes], most, -1)
    metadata |= _padded("whole", scenes, lambda each: (each.whole_type, each.whole_pose))
    if kind == "ambiguous":
        metadata |= _padded("decoy", scenes, lambda each: (each.decoy_type, each.decoy_pose))
    labels = metadata["whole_type"]
    return ImageSet(draw(scenes, size), labels[:, 0] if kind == "single" else labels, WHOLES, metadata)


def _padded(
    what: str, scenes: Sequence[Scene], facts: Callable[[Scene], tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    types, poses = zip(*(facts(each) for each in scenes))
    most = max(len(each) for each in types)
    pose = _pad(poses, most, 0)
    return {
        f"{what}_mask": _pad([torch.ones_like(each, dtype=torch.bool) for each in types], most, False),
        f"{what}_type": _pad(types, most, 0),
        f"{what}_pose": pose.float(),
        f"{what}_numbers": pose_numbers(pose).float(),
    }


def _pad(rows: Sequence[Tensor], most: int, value: float) -> Tensor:
    padded = rows[0].new_full((len(rows), most, *rows[0].shape[1:]), value)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded

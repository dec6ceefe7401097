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
    """Draw houses and boats of the same two parts, which differ only in their relative placement.

    Labels are the type of the whole (0 house, 1 boat): `[N]` in single scenes, and one per whole in the
    others, where **a class can repeat**. Crowded scenes have labels `[N, wholes]`: each whole has a random
    type, so that a scene may hold four houses, or one house and three boats (boats are a little rarer, since
    they need more room). Ambiguous scenes have labels `[N, 2]`, two equal numbers. Scores per class can say
    which types are in such a scene, but not how many of each; for that, use the poses in the metadata.

    Metadata, with P the largest number of parts in a scene, and padding where a mask is False:

    - `part_mask` bool `[N, P]`; `part_type` int64 `[N, P]` (0 rectangle, 1 triangle);
    - `part_pose` float32 `[N, P, 3, 3]`, and the same as x, y, angle, scale: `part_numbers` `[N, P, 4]`;
    - `part_whole` int64 `[N, P]`, the whole that a part belongs to, -1 for stray parts and padding;
    - `whole_mask`, `whole_type`, `whole_pose`, `whole_numbers` in the same way, and `decoy_…` of ambiguous
      scenes.

    Args:
        split: `"train"` or `"test"`.
        data_dir: not used.
        kind: `"single"`, `"crowded"` or `"ambiguous"` scenes, see `scene`.
        count: number of scenes, by default 4,000 for train and 1,000 for test; a larger number keeps the
            first ones as they are.
        wholes: houses and boats in a crowded scene.
        size: images are `[N, 1, size, size]`.
        seed: other numbers give other scenes.

    Example:
        >>> crowded = boats("test", kind="crowded", count=5)
        >>> crowded.images.shape, crowded.labels[0], crowded.metadata["whole_pose"].shape
        (torch.Size([5, 1, 48, 48]), tensor([0, 0, 0, 0]), torch.Size([5, 4, 3, 3]))
    """
    check_choice("split", split, tuple(COUNT))
    check_choice("kind", kind, tuple(KINDS))
    check_count("wholes", wholes)
    check_count("size", size)
    count = COUNT[split] if count is None else count
    check_count("count", count)
    scenes = [scene(kind, seed=f"{seed}/{split}/{number}", wholes=wholes) for number in range(count)]
    metadata = _facts("part", scenes, lambda each: (each.part_type, each.part_pose))
    most = metadata["part_mask"].shape[1]
    metadata["part_whole"] = _pad([each.part_whole for each in scenes], most, -1)
    metadata |= _facts("whole", scenes, lambda each: (each.whole_type, each.whole_pose))
    if kind == "ambiguous":
        metadata |= _facts("decoy", scenes, lambda each: (each.decoy_type, each.decoy_pose))
    labels = metadata["whole_type"]
    return ImageSet(draw(scenes, size), labels[:, 0] if kind == "single" else labels, WHOLES, metadata)


def _facts(
    name: str, scenes: Sequence[Scene], types_and_poses: Callable[[Scene], tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    """The metadata about the parts, wholes or decoys of all scenes, padded to the largest number of them."""
    types, poses = zip(*(types_and_poses(each) for each in scenes))
    most = max(len(each) for each in types)
    pose = _pad(poses, most, 0)
    return {
        f"{name}_mask": _pad([torch.ones_like(each, dtype=torch.bool) for each in types], most, False),
        f"{name}_type": _pad(types, most, 0),
        f"{name}_pose": pose.float(),
        f"{name}_numbers": pose_numbers(pose).float(),
    }


def _pad(rows: Sequence[Tensor], most: int, value: float) -> Tensor:
    padded = rows[0].new_full((len(rows), most, *rows[0].shape[1:]), value)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded

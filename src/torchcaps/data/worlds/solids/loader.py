from __future__ import annotations

import os
from dataclasses import replace

from torchcaps._checks import check_choice, check_count
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.data.worlds.flat.options import Range
from torchcaps.data.worlds.solids.options import SolidOptions
from torchcaps.data.worlds.solids.scenes import draw_solids

COUNT = {"train": 5_000, "test": 2_000}
"""Number of scenes in each split by default."""


@register_dataset("solids", random=True)
def solids(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    kind: str = "single",
    count: int | None = None,
    seed: int = 0,
    size: int = 48,
    azimuth: Range = (-180.0, 180.0),
    elevation: Range = (20.0, 50.0),
    turn: Range = (0.0, 0.0),
    scale: Range = (0.85, 1.0),
    offset: float = 0.05,
    light: Range = (-50.0, 50.0),
    lamp: Range = (0.2, 0.3),
    test_azimuth: Range | None = None,
    test_elevation: Range | None = None,
    parts: int = 4,
    noise: float = 0.0,
) -> ImageSet:
    """Draw stereo pairs of wholes made of solids, with the 4×4 pose of every part in the camera's frame.

    Parts are boxes, plates, cylinders, cones and ellipsoids, each with a dark mark that shows its
    orientation. Tower, cannon and drill are made of the same parts in other relations; so are plane, lamp
    and swing; so are robot and ship. Kinds of scenes, and their labels:

    - `parts`: loose parts that lie on any of their sides, seen from all azimuths; labels `[N, parts]` are
      their kinds;
    - `single`: one whole; labels `[N]` are its type, eight classes.

    The metadata is the truth as in `SolidScenes`.

    Args:
        split: `"train"` or `"test"`.
        data_dir: not used.
        kind: of the scenes.
        count: number of scenes, by default 5,000 for train and 2,000 for test.
        seed: other numbers give other scenes.
        size: images are `[N, 2, size, size]`.
        azimuth: range of the camera's azimuth around a whole, in degrees.
        elevation: range of its elevation.
        turn: range of its turn around the line of sight.
        scale: range of scales, 1 fills the image.
        offset: largest distance of a whole from the middle of the view.
        light: range of the lamp's azimuth, from the camera's.
        lamp: range of its brightness.
        test_azimuth: range of azimuths in the test split, by default that of the train split.
        test_elevation: range of elevations in the test split.
        parts: number of loose parts.
        noise: standard deviation of the noise on each pixel.

    Example:
        >>> behind = solids("test", count=4, azimuth=(-40, 40), test_azimuth=(90, 270))
        >>> behind.images.shape, behind.metadata["part_pose"].shape
        (torch.Size([4, 2, 48, 48]), torch.Size([4, 5, 4, 4]))
    """
    options = SolidOptions(
        size=size,
        azimuth=azimuth,
        elevation=elevation,
        turn=turn,
        scale=scale,
        offset=offset,
        light=light,
        lamp=lamp,
        parts=parts,
        noise=noise,
    )
    check_choice("split", split, tuple(COUNT))
    if split == "test":
        options = replace(
            options,
            azimuth=options.azimuth if test_azimuth is None else test_azimuth,
            elevation=options.elevation if test_elevation is None else test_elevation,
        )
    count = COUNT[split] if count is None else check_count("count", count)
    return draw_solids(kind, count, seed=seed, split=split, options=options).image_set()

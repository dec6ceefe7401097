"""COIL-20 and COIL-100: photographs of objects on a turntable, every 5 degrees (Nene, Nayar, Murase 1996)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import torch

from torchcaps._checks import check_choice, check_count
from torchcaps.data.fetch.cache import DATA_VARIABLE, user_folders
from torchcaps.data.imagefiles import ImageFileSet
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.errors import DataError

VIEWS, STEP = 72, 5
FAMILIAR_ANGLES = 60
"""Views up to so many degrees from the front are familiar in a novel-viewpoint experiment."""
PATTERN = re.compile(r"obj(\d+)__(\d+)\.png")


class Edition(NamedTuple):
    """One of the two sets.

    Attributes:
        objects: number of objects, which are the classes.
        folder: of its files, as the archive has it.
        degrees: degrees that one step of the number in a file name stands for.
        gray: whether its images have one channel.
    """

    objects: int
    folder: str
    degrees: int
    gray: bool


COIL20 = Edition(20, "coil-20-proc", STEP, gray=True)
COIL100 = Edition(100, "coil-100", 1, gray=False)


@register_dataset("coil20")
def coil20(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    size: int = 32,
    train_step: int = 10,
    viewpoint: str | None = None,
) -> ImageSet:
    """Load COIL-20: 20 objects, each photographed from 72 angles, gray `[N, 1, size, size]`.

    There is nothing to download automatically: unpack `coil-20-proc.zip` and give its folder, with the files
    `obj1__0.png` to `obj20__71.png`, as `data_dir`, or put it into `$TORCHCAPS_DATA`.

    Metadata, int64 `[N]`: `angle`, 0 to 355 degrees.

    Args:
        split: `"train"`, which has the angles that are multiples of `train_step`, or `"test"`, all others;
            or one of those of `viewpoint`.
        data_dir: the folder of the files, or the folder that it is in.
        size: images are scaled to this side; the files have 128.
        train_step: degrees between two training views, a multiple of 5 from 10 on.
        viewpoint: `"azimuth"` for the novel-viewpoint experiment, whose splits are `train` (angles up to 60°
            from the front that are multiples of `train_step`), `test_familiar` (the angles between those) and
            `test_novel` (all angles farther from the front).
    """
    return load_coil(COIL20, split, data_dir, size, train_step, viewpoint)


@register_dataset("coil100")
def coil100(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    size: int = 32,
    train_step: int = 10,
    viewpoint: str | None = None,
) -> ImageSet:
    """Load COIL-100: 100 objects, each photographed from 72 angles, in colors `[N, 3, size, size]`.

    As `coil20`; the files of `coil-100.zip` are `obj1__0.png` to `obj100__355.png`.
    """
    return load_coil(COIL100, split, data_dir, size, train_step, viewpoint)


def load_coil(
    edition: Edition,
    split: str,
    data_dir: str | os.PathLike[str] | None,
    size: int,
    train_step: int,
    viewpoint: str | None,
) -> ImageSet:
    """Load a split of one of the sets; see `coil20`.

    Raises:
        DataError: there is no such folder, or an object or angle is missing.
    """
    check_count("size", size)
    if check_count("train_step", train_step) % STEP or train_step < 2 * STEP:
        raise ValueError(f"train_step must be a multiple of {STEP} from {2 * STEP} on, got {train_step}")
    if viewpoint is None:
        check_choice("split", split, ("train", "test"))
    else:
        check_choice("viewpoint", viewpoint, ("azimuth",))
        check_choice("split", split, ("train", "test_familiar", "test_novel"))
    files = find_views(edition, data_dir)
    chosen = [view for view in files if split_of(view[1], train_step, viewpoint) == split]
    labels = torch.tensor([number - 1 for number, _ in chosen])
    classes = tuple(f"object {number}" for number in range(1, edition.objects + 1))
    paths = [files[view] for view in chosen]
    images = ImageFileSet(paths, labels, classes, (size, size), gray=edition.gray).to_memory()
    angles = torch.tensor([angle for _, angle in chosen])
    return ImageSet(images.images, images.labels, classes, {"angle": angles})


def split_of(angle: int, train_step: int, viewpoint: str | None = None) -> str:
    """The split that a view is in.

    >>> split_of(350, 10), split_of(355, 10), split_of(355, 10, "azimuth"), split_of(180, 10, "azimuth")
    ('train', 'test', 'test_familiar', 'test_novel')
    """
    trained = angle % train_step == 0
    if viewpoint is None:
        return "train" if trained else "test"
    if min(angle, 360 - angle) > FAMILIAR_ANGLES:
        return "test_novel"
    return "train" if trained else "test_familiar"


def find_views(edition: Edition, data_dir: str | os.PathLike[str] | None) -> dict[tuple[int, int], Path]:
    """The file of each object and angle, in order.

    Raises:
        DataError: there is no such folder, or a file is missing; the message names it.
    """
    places = user_folders(edition.folder, data_dir)
    place = next((each for each in places if (each / "obj1__0.png").is_file()), None)
    if place is None:
        searched = ", ".join(map(str, places)) or "nowhere"
        raise DataError(
            f"COIL-{edition.objects}: there is no obj1__0.png (searched: {searched}): unpack "
            f"{edition.folder}.zip and give its folder as data_dir, or put it into ${DATA_VARIABLE}"
        )
    found = {}
    for path in place.iterdir():
        match = PATTERN.fullmatch(path.name)
        if match:
            found[int(match[1]), int(match[2]) * edition.degrees] = path
    views = [(number, STEP * view) for number in range(1, edition.objects + 1) for view in range(VIEWS)]
    for number, angle in views:
        if (number, angle) not in found:
            name = f"obj{number}__{angle // edition.degrees}.png"
            raise DataError.in_file(place / name, f"the view of object {number} at {angle}° is missing")
    return {view: found[view] for view in views}

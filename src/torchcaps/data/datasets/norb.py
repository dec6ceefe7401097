"""smallNORB and NORB: photographs of toys from many viewpoints.

Each is published as triples of binary matrix files: dat (images), cat (classes) and info (facts about the
view).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_count
from torchcaps._files import read_bytes
from torchcaps.data.fetch.collection import Collection, Content
from torchcaps.data.fetch.suppliers import Mirror
from torchcaps.data.formats.matrix import parse_matrix
from torchcaps.data.imageset import ImageSet, concatenate
from torchcaps.data.registry import register_dataset
from torchcaps.data.transforms import resize
from torchcaps.errors import DataError

CLASSES = ("animal", "human", "plane", "truck", "car")
KINDS = ("dat", "cat", "info")
ROLE = {"train": "training", "test": "testing"}
INSTANCES = {"train": "46789", "test": "01235"}
NORB_PARTS = {"train": 10, "test": 2}

VIEW_FACTS = ("instance", "elevation", "azimuth", "lighting")
JITTER_FACTS = ("shift_x", "shift_y", "luminance", "contrast", "scale", "rotation")

FAMILIAR = {"azimuth": (30, 32, 34, 0, 2, 4), "elevation": (0, 1, 2)}
"""Views of the train split in the novel-viewpoint experiments: azimuths in 10°, elevations as 0 … 8."""

# As in the published experiments: crops of 32 from 48, each image standardized.
RECIPE: dict[str, Any] = {
    "options": {"size": 48},
    "preprocess": {"standardize": True, "crop": 32, "brightness": 0.2, "contrast": 0.2},
}


def smallnorb_names(split: str) -> list[str]:
    """The three files of a split of smallNORB.

    >>> smallnorb_names("train")[0]
    'smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat'
    """
    stem = f"smallnorb-5x{INSTANCES[split]}x9x18x6x2x96x96-{ROLE[split]}"
    return [f"{stem}-{kind}.mat" for kind in KINDS]


def norb_names(split: str, part: int) -> list[str]:
    """The three files of one part of NORB, counted from 1.

    >>> norb_names("train", 1)[0]
    'norb-5x46789x9x18x6x2x108x108-training-01-dat.mat'
    """
    stem = f"norb-5x{INSTANCES[split]}x9x18x6x2x108x108-{ROLE[split]}-{part:02}"
    return [f"{stem}-{kind}.mat" for kind in KINDS]


SMALLNORB = Collection(
    folder="smallnorb",
    sha256=dict(
        zip(
            [*smallnorb_names("train"), *smallnorb_names("test")],
            [
                "4813bf104d229583fea8ed57fdc3e9258c927b8dfb43d75412e854a7a9588067",
                "591ed90c090cb6724593e8de28180bd602095ee8ec82bd1a5ca30b488cd1d06e",
                "6b4075d3800ba0c6fa8c46a02f672572abe7b93f7ed82fb7668354a99ef03306",
                "2b1de646c57ffdc259b8fb973a6453e90915248a8fdb4d9df948786bdae72b34",
                "591ed90c090cb6724593e8de28180bd602095ee8ec82bd1a5ca30b488cd1d06e",
                "318f817236b7c97af03cd90e07a9cbb4346e20ef83a1118a61eeb50e3b96db7e",
            ],
        )
    ),
    suppliers=(Mirror("https://cs.nyu.edu/~ylclab/data/norb-v1.0-small"),),
    # A header of 24 or 20 bytes, then pixels, int32 classes, and four int32 facts.
    sizes={
        name: size
        for split in ROLE
        for name, size in zip(
            smallnorb_names(split), (24 + 24_300 * 2 * 96 * 96, 20 + 24_300 * 4, 20 + 24_300 * 4 * 4)
        )
    },
)

NORB = Collection(
    folder="norb",
    # No checksums were published: gzip's own, the fit of the three files to each other, and the checksums
    # recorded at the first fetch are compared.
    sha256={
        name: None
        for split, parts in NORB_PARTS.items()
        for part in range(1, parts + 1)
        for name in norb_names(split, part)
    },
    suppliers=(Mirror("https://cs.nyu.edu/~ylclab/data/norb-v1.0"),),
)


def familiar_split(options: Mapping[str, Any]) -> str:
    """The split to evaluate on: in a novel-viewpoint experiment, familiar views of the test toys."""
    return "test_familiar" if options.get("viewpoint") else "test"


def published_shape(side: int) -> Callable[[Mapping[str, Any]], tuple[int, int, int]]:
    """The shape of images by the options `stereo` and `size`; the published files have this `side`."""

    def shape(options: Mapping[str, Any]) -> tuple[int, int, int]:
        size = options.get("size") or side
        return 2 if options.get("stereo", True) else 1, size, size

    return shape


def check_viewpoint(split: str, viewpoint: str | None) -> None:
    """Check the option `viewpoint` and the split, whose names depend on it."""
    if viewpoint is None:
        check_choice("split", split, ("train", "test"))
    else:
        check_choice("viewpoint", viewpoint, tuple(FAMILIAR))
        check_choice("split", split, ("train", "test_familiar", "test_novel"))


@register_dataset("smallnorb", recipe=RECIPE, eval_split=familiar_split, image_shape=published_shape(96))
def smallnorb(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    stereo: bool = True,
    size: int | None = None,
    viewpoint: str | None = None,
) -> ImageSet:
    """Load toys photographed from many sides: 24,300 train and 24,300 test pairs of other toys, 5 classes.

    Metadata, int64 `[N]`: `instance`, `elevation` (0 … 8: 30° … 70°), `azimuth` (0, 2 … 34, in 10°) and
    `lighting` (0 … 5).

    Args:
        split: `"train"` or `"test"`, or one of those of `viewpoint`.
        data_dir: a directory with files in this format, with images of any size. They are checked for
            consistency only, whereas the published files must have the published checksums.
        stereo: images `[N, 2, 96, 96]` of both cameras, otherwise `[N, 1, 96, 96]` of the left one.
        size: scale images to this side by area average; the published experiments use 48.
        viewpoint: `"azimuth"` or `"elevation"` for the novel-viewpoint experiments, whose splits are `train`
            (azimuths 300° … 40°, or the three lowest elevations), `test_familiar` (test toys seen from
            those) and `test_novel` (test toys seen from all others).
    """
    check_viewpoint(split, viewpoint)
    if size is not None:
        check_count("size", size)
    base_split = split.partition("_")[0]
    if data_dir is None:
        parts = [SMALLNORB.read(smallnorb_names(base_split))]
    else:
        parts = [read_contents(paths) for paths in parts_in_folder(data_dir, SMALLNORB.folder, base_split)]
    images = concatenate([make_part(part, CLASSES, stereo=stereo, size=size) for part in parts])
    return images if viewpoint is None else select_views(images, viewpoint, novel=split == "test_novel")


@register_dataset("norb", recipe=RECIPE, image_shape=published_shape(108))
def norb(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    stereo: bool = True,
    size: int | None = None,
    parts: int | None = None,
) -> ImageSet:
    """Load the jittered-cluttered NORB set: toys on cluttered backgrounds, 6 classes.

    The sixth class is the background without a toy.

    Metadata: that of smallnorb, and how the toy was jittered: `shift_x`, `shift_y`, `luminance`, `contrast`,
    `scale`, `rotation`.

    Args:
        split: `"train"` or `"test"`.
        data_dir: a directory with files in this format.
        stereo: images `[N, 2, 108, 108]` of both cameras, otherwise `[N, 1, 108, 108]` of the left one.
        size: scale images to this side by area average, part by part as they are read.
        parts: how many of the 10 train or 2 test parts to load, 29,160 images each. All train parts take
            6.8 GB in memory at full size.
    """
    check_choice("split", split, tuple(NORB_PARTS))
    for name, value in (("size", size), ("parts", parts)):
        if value is not None:
            check_count(name, value)
    if data_dir is None:
        available = [norb_names(split, part) for part in range(1, NORB_PARTS[split] + 1)]
        contents = (NORB.read(names) for names in available[:parts])
    else:
        contents = (read_contents(paths) for paths in parts_in_folder(data_dir, NORB.folder, split)[:parts])
    classes = (*CLASSES, "background")
    return concatenate([make_part(part, classes, stereo=stereo, size=size) for part in contents])


def select_views(images: ImageSet, viewpoint: str, *, novel: bool) -> ImageSet:
    """Keep the familiar views of a novel-viewpoint experiment, or all others if `novel`."""
    familiar = torch.isin(images.metadata[viewpoint], torch.tensor(FAMILIAR[viewpoint]))
    return images.select(~familiar if novel else familiar)


def parts_in_folder(data_dir: str | os.PathLike[str], folder: str, split: str) -> list[tuple[Path, ...]]:
    """List the (dat, cat, info) files of a split in a directory, part by part.

    A file's name ends in `training-dat.mat`, or `training-01-dat.mat` where there are several parts
    (`testing` for the test split), plain or with `.gz`. The files may also be in the sub-folder `folder`.
    """
    root = Path(data_dir).expanduser()
    pattern = re.compile(rf"(.*{ROLE[split]}(?:-\d+)?)-dat\.mat(?:\.gz)?")
    for place in (root, root / folder):
        files = sorted(place.iterdir()) if place.is_dir() else []
        stems = sorted({match[1] for file in files if (match := pattern.fullmatch(file.name))})
        if stems:
            return [tuple(_plain_or_gz(place, f"{stem}-{kind}.mat") for kind in KINDS) for stem in stems]
    raise DataError(
        f"{root}: no file whose name ends in {ROLE[split]}-dat.mat or {ROLE[split]}-dat.mat.gz, "
        f"neither there nor in {folder}/"
    )


def _plain_or_gz(place: Path, name: str) -> Path:
    for candidate in (place / name, place / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise DataError.in_file(place / name, "it is missing beside its dat file")


def read_contents(paths: Sequence[Path]) -> list[Content]:
    """Read files whose checksum is not known."""
    return [Content(path, read_bytes(path)) for path in paths]


class Matrix(NamedTuple):
    """An array and the file it was read from."""

    path: Path
    array: np.ndarray

    def __str__(self) -> str:
        return f"{self.array.dtype.name} {list(self.array.shape)}"


def make_part(
    contents: Sequence[Content], classes: tuple[str, ...], *, stereo: bool, size: int | None
) -> ImageSet:
    """Make an image set of one (dat, cat, info) triple, after checking that the files fit each other.

    Args:
        contents: of the three files, in this order.
        classes: names of the classes.
        stereo: images `[N, 2, H, W]` with the left camera first, otherwise `[N, 1, H, W]` of the left camera.
        size: scale images to this side.

    Raises:
        DataError: the files do not fit; the message names one.
    """
    images, labels, info = (Matrix(path, parse_matrix(data, path)) for path, data in contents)
    if images.array.dtype != np.uint8 or images.array.ndim != 4 or images.array.shape[1] != 2:
        raise DataError.in_file(images.path, f"{images}; uint8 [N, 2, H, W] was expected")
    count = len(images.array)
    if labels.array.shape != (count,) or labels.array.dtype != np.int32:
        raise DataError.in_file(labels.path, f"{labels}; int32 [{count}] was expected")
    if count and not 0 <= labels.array.min() <= labels.array.max() < len(classes):
        limits = f"{labels.array.min()} to {labels.array.max()}"
        raise DataError.in_file(labels.path, f"categories {limits}; 0 to {len(classes) - 1} were expected")
    facts = (*VIEW_FACTS, *JITTER_FACTS)
    if info.array.ndim != 2 or len(info.array) != count or info.array.shape[1] not in (4, len(facts)):
        raise DataError.in_file(info.path, f"{info}; [{count}, 4 or {len(facts)}] was expected")
    pixels = torch.from_numpy(images.array if stereo else np.ascontiguousarray(images.array[:, :1]))
    return ImageSet(
        pixels if size is None else resize(pixels, size),
        torch.from_numpy(labels.array).long(),
        classes,
        {name: _fact(info.array[:, column]) for column, name in enumerate(facts[: info.array.shape[1]])},
    )


def _fact(column: np.ndarray) -> Tensor:
    values = torch.from_numpy(np.ascontiguousarray(column))
    return values.float() if values.is_floating_point() else values.long()

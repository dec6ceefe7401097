from __future__ import annotations

import os
from pathlib import Path

import torch

from torchcaps._checks import check_choice, check_count, check_flag
from torchcaps.data.formats.images import MAX_PIXELS, SUFFIXES, common_form
from torchcaps.data.imagefiles import ImageFileSet
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.errors import DataError

STREAM_ABOVE = 1 << 30
"""Bytes of decoded images (1 GiB) above which a split is streamed, unless the option `stream` decides."""


@register_dataset("folder")
def folder(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    size: int | None = None,
    pad: bool = False,
    test_fraction: float = 0.2,
    seed: int = 0,
    stream: bool | None = None,
    max_pixels: int = MAX_PIXELS,
) -> ImageSet | ImageFileSet:
    """Load your own images, one sub-folder per class: `[N, 1, H, W]` if all are gray, else `[N, 3, H, W]`.

    Transparent pixels become white; photographs are rotated as their orientation tag says. An image of
    another shape than the others keeps its proportions: it is scaled until its shorter side fits, and what
    is then outside of the center is cut off; with `pad` nothing is.

    Args:
        split: `"train"` or `"test"`.
        data_dir: the folder. If it has sub-folders `train` and `test`, the classes are in those; otherwise
            `test_fraction` of each class, chosen by `seed`, is the test split.
        size: images become squares of this side. By default they keep their size if they all share one of at
            most 128 pixels, and become 64×64 if not.
        pad: scale an image until its longer side fits, so that all of it is kept, and fill the rest with the
            mean color of its border. A model that is trained on them reads new files in the same way.
        test_fraction: share of each class that is the test split, if there is no folder `test`.
        seed: of that choice.
        stream: whether to leave the images in their files and decode them when they are used. By default a
            split is streamed if its decoded images take more than 1 GiB.
        max_pixels: width times height of the largest file that is accepted; files are checked by their
            headers, before one is decoded.

    Returns:
        An `ImageSet` in memory, or an `ImageFileSet` if streamed; `in_memory` tells which. No metadata.

    Raises:
        DataError: the folder or a class is missing, or a file is no image or too large; the message names
            it.
    """
    check_choice("split", split, ("train", "test"))
    if size is not None:
        check_count("size", size)
    if stream is not None:
        check_flag("stream", stream)
    check_flag("pad", pad)
    check_count("max_pixels", max_pixels)
    if not 0 < test_fraction < 1:
        raise ValueError(f"test_fraction must be between 0 and 1, got {test_fraction!r}")
    if data_dir is None:
        raise ValueError("the folder of images is missing: give data_dir=PATH, or load 'folder:PATH'")
    root = Path(data_dir).expanduser()
    if not root.is_dir():
        raise DataError.in_file(root, "there is no such folder")
    files = {"train": files_by_class(root / "train"), "test": files_by_class(root / "test")}
    if not files["train"] or not files["test"]:
        files = split_files(files["train"] or files_by_class(root), test_fraction, seed)
    classes = tuple(sorted(files["train"]))
    if not classes:
        raise DataError.in_file(root, f"no class sub-folders with images in them ({', '.join(SUFFIXES)})")
    unknown = sorted(set(files["test"]) - set(classes))
    if unknown:
        raise DataError.in_file(root / "test" / unknown[0], "this class has no train images")
    # From the files of both splits, so that they agree in size and channels.
    shape, gray = common_form(
        [path for part in files.values() for paths in part.values() for path in paths], size, max_pixels
    )
    rows = [(path, label) for label, name in enumerate(classes) for path in files[split].get(name, ())]
    labels = torch.tensor([label for _, label in rows], dtype=torch.int64)
    images = ImageFileSet(
        [path for path, _ in rows], labels, classes, shape, gray=gray, max_pixels=max_pixels, pad=pad
    )
    if stream is None:
        stream = images.num_bytes > STREAM_ABOVE
    return images if stream else images.to_memory()


def files_by_class(root: Path) -> dict[str, list[Path]]:
    """List the image files in each sub-folder of `root`, at any depth, sorted; empty ones are left out."""
    if not root.is_dir():
        return {}
    by_class = {}
    for sub in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")):
        files = [path for path in sub.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()]
        files = sorted(path for path in files if not path.name.startswith("."))
        if files:
            by_class[sub.name] = files
    return by_class


def split_files(
    files: dict[str, list[Path]], test_fraction: float, seed: int
) -> dict[str, dict[str, list[Path]]]:
    """Split each class by `seed`: at least one image is for training, and one for test if there are two."""
    parts: dict[str, dict[str, list[Path]]] = {"train": {}, "test": {}}
    generator = torch.Generator().manual_seed(seed)
    for name, paths in files.items():
        order = torch.randperm(len(paths), generator=generator).tolist()
        test = min(max(1, round(len(paths) * test_fraction)), len(paths) - 1)
        parts["train"][name] = [paths[place] for place in sorted(order[test:])]
        parts["test"][name] = [paths[place] for place in sorted(order[:test])]
    return parts

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from torchcaps._checks import check_choice, check_count
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.fetch.suppliers import Mirror
from torchcaps.data.formats.norb import KINDS, join, make_part, parts_in_folder, read_contents
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset

CLASSES = ("animal", "human", "plane", "truck", "car")
STEM = {
    "train": "smallnorb-5x46789x9x18x6x2x96x96-training",
    "test": "smallnorb-5x01235x9x18x6x2x96x96-testing",
}
BOTH_CATEGORIES = "591ed90c090cb6724593e8de28180bd602095ee8ec82bd1a5ca30b488cd1d06e"

SMALLNORB = Collection(
    folder="smallnorb",
    sha256={
        f"{STEM['train']}-dat.mat": "4813bf104d229583fea8ed57fdc3e9258c927b8dfb43d75412e854a7a9588067",
        f"{STEM['train']}-cat.mat": BOTH_CATEGORIES,
        f"{STEM['train']}-info.mat": "6b4075d3800ba0c6fa8c46a02f672572abe7b93f7ed82fb7668354a99ef03306",
        f"{STEM['test']}-dat.mat": "2b1de646c57ffdc259b8fb973a6453e90915248a8fdb4d9df948786bdae72b34",
        f"{STEM['test']}-cat.mat": BOTH_CATEGORIES,
        f"{STEM['test']}-info.mat": "318f817236b7c97af03cd90e07a9cbb4346e20ef83a1118a61eeb50e3b96db7e",
    },
    suppliers=(Mirror("https://cs.nyu.edu/~ylclab/data/norb-v1.0-small"),),
)

# Azimuths are stored in tens of degrees, elevations as ranks from 30° to 70°.
FAMILIAR = {"azimuth": (30, 32, 34, 0, 2, 4), "elevation": (0, 1, 2)}


# As in the published experiments: crops of 32 from 48, each image standardized.
CROPPED: dict[str, Any] = {
    "options": {"size": 48},
    "preprocess": {"standardize": True, "crop": 32, "brightness": 0.2, "contrast": 0.2},
}


def familiar_views(options: Mapping[str, Any]) -> str:
    """The split to test on: in a novel-viewpoint experiment, familiar views of the test toys."""
    return "test_familiar" if options.get("viewpoint") else "test"


@register_dataset("smallnorb", recipe=CROPPED, eval_split=familiar_views)
def smallnorb(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    stereo: bool = True,
    size: int | None = None,
    viewpoint: str | None = None,
) -> ImageSet:
    """Load toys photographed from many sides: 24,300 train and 24,300 test pairs of other toys, 5 classes.

    - `stereo`: images `[N, 2, 96, 96]` of both cameras, otherwise `[N, 1, 96, 96]` of the left one.
    - `size`: scaled by area average; the published experiments use 48.
    - `viewpoint`: `"azimuth"` or `"elevation"` for the novel-viewpoint experiments, whose splits are `train`
      (azimuths 300° … 40°, or the three lowest elevations), `test_familiar` (test toys seen from those) and
      `test_novel` (test toys seen from all others).
    - `data_dir`: a directory in NORB's format, made anywhere and with images of any size. It is checked for
      consistency only, where the published files must have the published checksums.

    Metadata: `instance`, `elevation` (0 … 8), `azimuth` (0, 2 … 34, in 10°) and `lighting` (0 … 5), int64
    `[N]`.
    """
    if viewpoint is not None:
        check_choice("viewpoint", viewpoint, tuple(FAMILIAR))
    check_choice(
        "split", split, ("train", "test") if viewpoint is None else ("train", "test_familiar", "test_novel")
    )
    if size is not None:
        check_count("size", size)
    whole = split.partition("_")[0]
    if data_dir is None:
        parts = [SMALLNORB.read([f"{STEM[whole]}-{kind}.mat" for kind in KINDS])]
    else:
        parts = [read_contents(paths) for paths in parts_in_folder(data_dir, SMALLNORB.folder, whole)]
    images = join([make_part(part, CLASSES, stereo=stereo, size=size) for part in parts])
    return images if viewpoint is None else select_views(images, viewpoint, novel=split == "test_novel")


def select_views(images: ImageSet, viewpoint: str, *, novel: bool) -> ImageSet:
    """Keep the images seen from the familiar side of a novel-viewpoint experiment, or from the other."""
    familiar = torch.isin(images.metadata[viewpoint], torch.tensor(FAMILIAR[viewpoint]))
    return images.select(~familiar if novel else familiar)

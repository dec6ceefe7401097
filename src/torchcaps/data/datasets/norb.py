from __future__ import annotations

import os

from torchcaps._checks import check_choice, check_count
from torchcaps.data.datasets.smallnorb import CROPPED
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.fetch.suppliers import Mirror
from torchcaps.data.formats.norb import KINDS, ROLE, join, make_part, parts_in_folder, read_contents
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset

CLASSES = ("animal", "human", "plane", "truck", "car", "background")
INSTANCES = {"train": "46789", "test": "01235"}
PARTS = {"train": 10, "test": 2}


def part_names(split: str, part: int) -> list[str]:
    """Name the three files of a part, counted from 1.

    >>> part_names("train", 1)[0]
    'norb-5x46789x9x18x6x2x108x108-training-01-dat.mat'
    """
    stem = f"norb-5x{INSTANCES[split]}x9x18x6x2x108x108-{ROLE[split]}-{part:02}"
    return [f"{stem}-{kind}.mat" for kind in KINDS]


NORB = Collection(
    folder="norb",
    # No checksums were published; gzip's own and the fit of the three files to each other are checked.
    sha256={
        name: None
        for split in PARTS
        for part in range(1, PARTS[split] + 1)
        for name in part_names(split, part)
    },
    suppliers=(Mirror("https://cs.nyu.edu/~ylclab/data/norb-v1.0"),),
)


@register_dataset("norb", recipe=CROPPED)
def norb(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    stereo: bool = True,
    size: int | None = None,
    parts: int | None = None,
) -> ImageSet:
    """Load the jittered-cluttered NORB set: toys on cluttered backgrounds, and backgrounds alone as a sixth
    class.

    - `stereo`: images `[N, 2, 108, 108]` of both cameras, otherwise `[N, 1, 108, 108]` of the left one.
    - `size`: scaled by area average, part by part as they are read.
    - `parts`: how many of the 10 train or 2 test parts to load, 29,160 images each. All train parts take
      6.8 GB in memory at full size.
    - `data_dir`: a directory with files in this format.

    Metadata: `instance`, `elevation`, `azimuth`, `lighting` as in smallnorb, and how the toy was jittered:
    `shift_x`, `shift_y`, `luminance`, `contrast`, `scale`, `rotation`.
    """
    check_choice("split", split, tuple(PARTS))
    for name, value in (("size", size), ("parts", parts)):
        if value is not None:
            check_count(name, value)
    if data_dir is None:
        available = [part_names(split, part) for part in range(1, PARTS[split] + 1)]
        contents = (NORB.read(names) for names in available[:parts])
    else:
        contents = (read_contents(paths) for paths in parts_in_folder(data_dir, NORB.folder, split)[:parts])
    return join([make_part(part, CLASSES, stereo=stereo, size=size) for part in contents])

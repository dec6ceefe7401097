from __future__ import annotations

from torchcaps.data.datasets.norb import SMALLNORB, parts_in_folder
from torchcaps.data.fetch.cache import DATA_VARIABLE, user_folders
from torchcaps.data.fetch.collection import existing
from torchcaps.errors import DataError
from torchcaps.experiments.workbench.study import Study


def norb_like(study: Study) -> str:
    """Which toys to use: `"smallnorb"` where its files lie in the user's folders, otherwise rendered ones.

    They are looked for in the study's `data_dir`, then in `$TORCHCAPS_DATA`; the study is told which data it
    is. smallNORB itself is not asked for: its mirror is seldom there, and rendered toys need none.
    """
    if study.quick:
        return "toys"
    if in_data_dir(study):
        study.uses("smallNORB, from --data-dir")
        return "smallnorb"
    if in_shared_folder():
        # A folder given is the only one in which smallNORB's loader looks.
        study.data_dir = None
        study.uses(f"smallNORB, from ${DATA_VARIABLE}")
        return "smallnorb"
    study.uses(f"rendered toys, as smallNORB is neither in --data-dir nor in ${DATA_VARIABLE}")
    return "toys"


def in_data_dir(study: Study) -> bool:
    """Whether the study was given files in NORB's format."""
    if study.data_dir is None:
        return False
    try:
        return bool(parts_in_folder(study.data_dir, SMALLNORB.folder, "train"))
    except DataError:
        return False


def in_shared_folder() -> bool:
    """Whether all published files lie in `$TORCHCAPS_DATA`."""
    return any(
        all(existing(place / name) for name in SMALLNORB.sha256) for place in user_folders(SMALLNORB.folder)
    )

from __future__ import annotations

from torchcaps.data.errors import DataError
from torchcaps.data.norb_files import parts_in_folder
from torchcaps.data.smallnorb import SMALLNORB
from torchcaps.experiments.study import Study


def norb_like(study: Study) -> str:
    """Which toys to use: `"smallnorb"` where the study was given its files, otherwise rendered ones.

    smallNORB itself is not asked for: its mirror is seldom there, and rendered toys need none.
    """
    if study.quick or study.data_dir is None:
        return "toys"
    try:
        parts_in_folder(study.data_dir, SMALLNORB.folder, "train")
    except DataError:
        return "toys"
    return "smallnorb"

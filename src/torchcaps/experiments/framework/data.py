"""Which data set the experiments on toys use."""

from __future__ import annotations

from typing import NamedTuple

from torchcaps.data.datasets.norb import SMALLNORB, parts_in_folder
from torchcaps.data.fetch.cache import DATA_VARIABLE, user_folders
from torchcaps.data.fetch.collection import existing
from torchcaps.errors import DataError
from torchcaps.experiments.framework.study import Study


class NorbData(NamedTuple):
    """A data set in the format of smallNORB.

    Attributes:
        name: as `torchcaps.data.load` takes it.
        data_dir: folder to load it from; `None` for the usual places.
        description: for the report.
    """

    name: str
    data_dir: str | None
    description: str


def use_norb_data(study: Study) -> str:
    """Choose smallNORB where its files exist, otherwise rendered toys, and set the data of the study.

    Returns:
        The name of the data set. The quick form always uses rendered toys.
    """
    if study.quick:
        return "toys"
    chosen = find_norb_data(study.data_dir)
    study.use_data(chosen.description, chosen.data_dir)
    return chosen.name


def find_norb_data(data_dir: str | None) -> NorbData:
    """smallNORB if it is in `data_dir` or in `$TORCHCAPS_DATA`, otherwise rendered toys.

    smallNORB is not downloaded: its server is often offline, and rendered toys need no download.
    """
    if in_data_dir(data_dir):
        return NorbData("smallnorb", data_dir, "smallNORB, from --data-dir")
    if in_shared_folder():
        # The loader of smallNORB would look in no other folder if data_dir was given.
        return NorbData("smallnorb", None, f"smallNORB, from ${DATA_VARIABLE}")
    description = f"rendered toys, because smallNORB is neither in --data-dir nor in ${DATA_VARIABLE}"
    return NorbData("toys", data_dir, description)


def in_data_dir(data_dir: str | None) -> bool:
    """Whether a folder holds training files in NORB's format."""
    if data_dir is None:
        return False
    try:
        return bool(parts_in_folder(data_dir, SMALLNORB.folder, "train"))
    except DataError:
        return False


def in_shared_folder() -> bool:
    """Whether `$TORCHCAPS_DATA` holds all published files."""
    return any(
        all(existing(folder / name) for name in SMALLNORB.sha256) for folder in user_folders(SMALLNORB.folder)
    )

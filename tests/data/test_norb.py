from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_smallnorb import write_set

from torchcaps.data import load
from torchcaps.data.datasets.norb import NORB, part_names
from torchcaps.data.formats.norb import write_matrix
from torchcaps.errors import DataError


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> Path:
    for part in (1, 2):
        write_set(
            tmp_path, f"norb-5x46789x9x18x6x2x108x108-training-{part:02}", columns=10, classes=6, suffix=".gz"
        )
    return tmp_path


def test_parts_are_joined(folder: Path) -> None:
    norb = load("norb", data_dir=folder)
    assert norb.images.shape == (324, 2, 16, 16)
    assert norb.num_classes == 6
    assert norb.classes[5] == "background"
    assert len(norb.metadata) == 10
    assert len(norb.metadata["rotation"]) == 324


def test_fewer_parts_and_a_smaller_size(folder: Path) -> None:
    assert load("norb", data_dir=folder, parts=1, size=8, stereo=False).images.shape == (162, 1, 8, 8)


def test_fractional_facts_are_kept(folder: Path) -> None:
    info = np.full((162, 10), 0.5, np.float32)
    write_matrix(folder / f"{part_names('train', 1)[2]}.gz", info)
    assert load("norb", data_dir=folder, parts=1).metadata["contrast"].unique().tolist() == [0.5]


def test_a_set_from_the_data_directory(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.joinpath("norb").mkdir()
    for file in folder.glob("*.gz"):
        file.rename(folder / "norb" / file.name)
    monkeypatch.setenv("TORCHCAPS_DATA", str(folder))
    assert len(load("norb", parts=2)) == 324
    with pytest.raises(DataError, match="training-03-dat"):
        load("norb", parts=3)


def test_all_published_files_are_known() -> None:
    assert len(NORB.sha256) == 36
    assert "norb-5x01235x9x18x6x2x108x108-testing-02-info.mat" in NORB.sha256

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from torchcaps.data import load
from torchcaps.data.datasets.norb import NORB, norb_names
from torchcaps.data.formats.matrix import write_matrix
from torchcaps.errors import DataError

TRAIN = "made-5x46789x9x18x6x2x16x16-training"
TEST = "made-5x01235x9x18x6x2x16x16-testing"


def write_set(folder: Path, stem: str, columns: int = 4, classes: int = 5, suffix: str = "") -> np.ndarray:
    """One image per azimuth and elevation, whose pixels are the azimuth (left) and elevation (right)."""
    views = [(azimuth, elevation) for azimuth in range(0, 36, 2) for elevation in range(9)]
    images = np.zeros((len(views), 2, 16, 16), np.uint8)
    info = np.zeros((len(views), columns), np.int32)
    for place, (azimuth, elevation) in enumerate(views):
        images[place, 0], images[place, 1] = azimuth, elevation
        info[place, :4] = place % 10, elevation, azimuth, place % 6
    write_matrix(folder / f"{stem}-dat.mat{suffix}", images)
    write_matrix(folder / f"{stem}-cat.mat{suffix}", (np.arange(len(views)) % classes).astype(np.int32))
    write_matrix(folder / f"{stem}-info.mat{suffix}", info)
    return images


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> Path:
    write_set(tmp_path, TRAIN)
    write_set(tmp_path, TEST, suffix=".gz")
    return tmp_path


def test_a_directory_with_other_files_is_read(folder: Path) -> None:
    train = load("smallnorb", data_dir=folder)
    assert train.images.shape == (162, 2, 16, 16)
    assert train.classes == ("animal", "human", "plane", "truck", "car")
    assert torch.equal(train.metadata["azimuth"], train.images[:, 0, 0, 0].long())
    assert torch.equal(train.metadata["elevation"], train.images[:, 1, 0, 0].long())
    assert set(train.metadata) == {"instance", "elevation", "azimuth", "lighting"}
    assert len(load("smallnorb", "test", data_dir=folder)) == 162


def test_files_may_be_in_a_sub_folder(tmp_path: Path, cache: Path) -> None:
    write_set(tmp_path / "smallnorb", TRAIN)
    assert len(load("smallnorb", data_dir=tmp_path)) == 162


def test_mono_keeps_the_left_camera(folder: Path) -> None:
    mono = load("smallnorb", data_dir=folder, stereo=False)
    assert mono.images.shape == (162, 1, 16, 16)
    assert torch.equal(mono.images[:, 0, 0, 0].long(), mono.metadata["azimuth"])


def test_scaling_averages_areas(tmp_path: Path, cache: Path) -> None:
    images = write_set(tmp_path, TRAIN)
    images[0, 0, :2, :2] = [[10, 20], [30, 40]]
    write_matrix(tmp_path / f"{TRAIN}-dat.mat", images)
    small = load("smallnorb", data_dir=tmp_path, size=8)
    assert small.images.shape == (162, 2, 8, 8)
    assert small.images[0, 0, 0, 0] == 25


def test_novel_azimuths(folder: Path) -> None:
    splits = {
        split: load("smallnorb", split, data_dir=folder, viewpoint="azimuth")
        .metadata["azimuth"]
        .unique()
        .tolist()
        for split in ("train", "test_familiar", "test_novel")
    }
    assert splits["train"] == splits["test_familiar"] == [0, 2, 4, 30, 32, 34]
    assert splits["test_novel"] == list(range(6, 30, 2))


def test_novel_elevations(folder: Path) -> None:
    splits = {
        split: load("smallnorb", split, data_dir=folder, viewpoint="elevation").metadata["elevation"].unique()
        for split in ("train", "test_familiar", "test_novel")
    }
    assert splits["train"].tolist() == splits["test_familiar"].tolist() == [0, 1, 2]
    assert splits["test_novel"].tolist() == [3, 4, 5, 6, 7, 8]


def test_unknown_names_get_a_suggestion(folder: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'azimuth'"):
        load("smallnorb", viewpoint="azimut", data_dir=folder)
    with pytest.raises(ValueError, match="did you mean 'test_novel'"):
        load("smallnorb", "test_nowel", viewpoint="azimuth", data_dir=folder)
    with pytest.raises(ValueError, match="unknown split 'test_novel'"):
        load("smallnorb", "test_novel", data_dir=folder)


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        ("dat", np.zeros((162, 16, 16), np.uint8)),
        ("dat", np.zeros((162, 2, 16, 16), np.int32)),
        ("dat", np.zeros((161, 2, 16, 16), np.uint8)),
        ("cat", np.zeros(161, np.int32)),
        ("cat", np.full(162, 5, np.int32)),
        ("cat", np.full(162, -1, np.int32)),
        ("info", np.zeros((162, 3), np.int32)),
        ("info", np.zeros(162, np.int32)),
    ],
)
def test_files_that_do_not_fit_are_named(folder: Path, kind: str, array: np.ndarray) -> None:
    write_matrix(folder / f"{TRAIN}-{kind}.mat", array)
    with pytest.raises(DataError, match=rf"{TRAIN}-(cat|{kind})\.mat: "):
        load("smallnorb", data_dir=folder)


def test_a_missing_part_is_named(folder: Path) -> None:
    (folder / f"{TRAIN}-info.mat").unlink()
    with pytest.raises(DataError, match=rf"{TRAIN}-info\.mat"):
        load("smallnorb", data_dir=folder)


def test_an_empty_directory_is_named(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(DataError, match="training-dat"):
        load("smallnorb", data_dir=tmp_path)


def test_without_files_the_error_says_what_to_do(cache: Path) -> None:
    with pytest.raises(DataError, match="by hand"):
        load("smallnorb")


def test_published_names_in_the_cache_are_checked(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_DATA", str(cache))
    write_set(cache / "smallnorb", "smallnorb-5x46789x9x18x6x2x96x96-training")
    with pytest.raises(DataError, match="sha256"):
        load("smallnorb")


@pytest.fixture
def norb_folder(tmp_path: Path, cache: Path) -> Path:
    for part in (1, 2):
        write_set(
            tmp_path, f"norb-5x46789x9x18x6x2x108x108-training-{part:02}", columns=10, classes=6, suffix=".gz"
        )
    return tmp_path


def test_norb_parts_are_joined(norb_folder: Path) -> None:
    norb = load("norb", data_dir=norb_folder)
    assert norb.images.shape == (324, 2, 16, 16)
    assert norb.num_classes == 6
    assert norb.classes[5] == "background"
    assert len(norb.metadata) == 10
    assert len(norb.metadata["rotation"]) == 324


def test_norb_with_fewer_parts_and_a_smaller_size(norb_folder: Path) -> None:
    assert load("norb", data_dir=norb_folder, parts=1, size=8, stereo=False).images.shape == (162, 1, 8, 8)


def test_fractional_norb_facts_are_kept(norb_folder: Path) -> None:
    info = np.full((162, 10), 0.5, np.float32)
    write_matrix(norb_folder / f"{norb_names('train', 1)[2]}.gz", info)
    assert load("norb", data_dir=norb_folder, parts=1).metadata["contrast"].unique().tolist() == [0.5]


def test_norb_from_the_data_directory(norb_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (norb_folder / "norb").mkdir()
    for file in norb_folder.glob("*.gz"):
        file.rename(norb_folder / "norb" / file.name)
    monkeypatch.setenv("TORCHCAPS_DATA", str(norb_folder))
    assert len(load("norb", parts=2)) == 324
    with pytest.raises(DataError, match="training-03-dat"):
        load("norb", parts=3)


def test_all_published_norb_files_are_known() -> None:
    assert len(NORB.sha256) == 36
    assert "norb-5x01235x9x18x6x2x108x108-testing-02-info.mat" in NORB.sha256

from __future__ import annotations

from pathlib import Path

import pytest

from torchcaps.data.datasets.norb import SMALLNORB
from torchcaps.experiments.framework.data import find_norb_data, use_norb_data
from torchcaps.experiments.framework.study import Study


def add_published_files(folder: Path) -> None:
    (folder / "smallnorb").mkdir(parents=True)
    for name in SMALLNORB.sha256:
        (folder / "smallnorb" / f"{name}.gz").touch()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an empty one in it, which is no place of smallNORB."""
    monkeypatch.setenv("TORCHCAPS_DATA", str(tmp_path / "shared"))
    (tmp_path / "empty").mkdir()
    return tmp_path


def used_data(folders: Path, data_dir: Path, *, quick: bool = False) -> tuple[str, str | None, str]:
    study = Study(folders / "study", quick=quick, data_dir=str(data_dir))
    return use_norb_data(study), study.data_dir, study.data


def test_toys_are_rendered_if_there_is_no_smallnorb(folders: Path) -> None:
    name, data_dir, description = used_data(folders, folders / "empty")
    assert (name, data_dir) == ("toys", str(folders / "empty"))
    assert description.startswith("rendered toys, because smallNORB is neither in --data-dir nor in")


def test_smallnorb_is_found_in_the_shared_folder(folders: Path) -> None:
    add_published_files(folders / "shared")
    expected = ("smallnorb", None, "smallNORB, from $TORCHCAPS_DATA")
    assert used_data(folders, folders / "empty") == expected


def test_smallnorb_in_data_dir_comes_first(folders: Path) -> None:
    for place in ("shared", "own"):
        add_published_files(folders / place)
    expected = ("smallnorb", str(folders / "own"), "smallNORB, from --data-dir")
    assert used_data(folders, folders / "own") == expected


def test_unpacked_training_files_are_enough_in_data_dir(folders: Path) -> None:
    (folders / "own/smallnorb").mkdir(parents=True)
    for kind in ("dat", "cat", "info"):
        (folders / f"own/smallnorb/smallnorb-5x46789x9x18x6x2x96x96-training-{kind}.mat").touch()
    assert find_norb_data(str(folders / "own")).name == "smallnorb"


def test_quick_form_always_renders_toys(folders: Path) -> None:
    add_published_files(folders / "own")
    assert used_data(folders, folders / "own", quick=True) == ("toys", str(folders / "own"), "")


def test_finding_data_changes_nothing(folders: Path) -> None:
    """Looking for data must not change the study: only `use_data` does."""
    add_published_files(folders / "shared")
    study = Study(folders / "study", quick=False, data_dir=str(folders / "empty"))
    assert find_norb_data(study.data_dir).data_dir is None
    assert study.data_dir == str(folders / "empty")

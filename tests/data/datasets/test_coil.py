from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from torchcaps.data import load
from torchcaps.data.datasets import coil
from torchcaps.data.datasets.coil import COIL20, COIL100, STEP, VIEWS
from torchcaps.errors import DataError


def write_coil(folder: Path, edition: coil.Edition) -> None:
    """Files in the layout of the set, whose brightness is the object's and the angle's."""
    folder.mkdir(parents=True)
    for number in range(1, edition.objects + 1):
        for view in range(VIEWS):
            shape = (16, 16) if edition.gray else (16, 16, 3)
            pixels = np.full(shape, 10 * number + view, dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"obj{number}__{view * STEP // edition.degrees}.png")


@pytest.fixture
def few_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coil, "COIL20", COIL20._replace(objects=3))
    monkeypatch.setattr(coil, "COIL100", COIL100._replace(objects=2))


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize(("name", "channels", "objects"), [("coil20", 1, 3), ("coil100", 3, 2)])
def test_every_view_is_in_one_split(tmp_path: Path, name: str, channels: int, objects: int) -> None:
    edition = getattr(coil, name.upper())
    write_coil(tmp_path / edition.folder, edition)
    for viewpoint, splits in (
        (None, ("train", "test")),
        ("azimuth", ("train", "test_familiar", "test_novel")),
    ):
        parts = {split: load(name, split, data_dir=tmp_path, size=8, viewpoint=viewpoint) for split in splits}
        angles = torch.cat([part.metadata["angle"] for part in parts.values()])
        labels = torch.cat([part.labels for part in parts.values()])
        seen = set(zip(labels.tolist(), angles.tolist()))
        assert len(angles) == len(seen) == objects * VIEWS
        for part in parts.values():
            assert part.images.shape[1:] == (channels, 8, 8)
            # The pixels are those of the object and the angle, not of the place in the list.
            expected = 10 * (part.labels + 1) + part.metadata["angle"] // STEP
            assert part.images[:, 0, 4, 4].long().equal(expected)


@pytest.mark.usefixtures("few_objects")
def test_novel_views_are_far_from_the_front(tmp_path: Path) -> None:
    write_coil(tmp_path / "here", coil.COIL20)
    train, familiar, novel = (
        load("coil20", split, data_dir=tmp_path / "here", viewpoint="azimuth", size=8)
        for split in ("train", "test_familiar", "test_novel")
    )
    away = [
        torch.minimum(part.metadata["angle"], 360 - part.metadata["angle"])
        for part in (train, familiar, novel)
    ]
    assert away[0].max() == 60
    assert away[1].max() == 55
    assert away[2].min() == 65
    assert (train.metadata["angle"] % 10 == 0).all()
    coarse = load("coil20", data_dir=tmp_path / "here", train_step=45, size=8)
    assert coarse.metadata["angle"].unique().tolist() == [0, 45, 90, 135, 180, 225, 270, 315]


@pytest.mark.usefixtures("few_objects")
def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHCAPS_DATA", raising=False)
    with pytest.raises(DataError, match=r"coil-20-proc\.zip"):
        load("coil20", data_dir=tmp_path)
    write_coil(tmp_path / "coil-20-proc", coil.COIL20)
    (tmp_path / "coil-20-proc" / "obj2__7.png").unlink()
    with pytest.raises(DataError, match="object 2 at 35° is missing"):
        load("coil20", data_dir=tmp_path)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="train_step"):
        load("coil20", train_step=7)
    with pytest.raises(ValueError, match="viewpoint"):
        load("coil20", viewpoint="elevation")
    with pytest.raises(ValueError, match="split"):
        load("coil20", "test_novel")


def test_shared_folder_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_objects: None
) -> None:
    write_coil(tmp_path / "coil-100", coil.COIL100)
    monkeypatch.setenv("TORCHCAPS_DATA", str(tmp_path))
    assert len(load("coil100", "test", size=8)) == 2 * VIEWS // 2

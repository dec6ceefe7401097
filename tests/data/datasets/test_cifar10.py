from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from torchcaps.data import load
from torchcaps.data.datasets.cifar10 import read_png_sheet
from torchcaps.data.formats.cifar import format_cifar
from torchcaps.errors import DataError


@pytest.fixture
def package(tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """A package like the npm one, with four images a sheet."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (8, 3, 32, 32), dtype=np.uint8)
    labels = random.integers(0, 10, 8, dtype=np.uint8)
    folder = tmp_path / "package"
    folder.mkdir()
    for number in (1, 2):
        sheet = images[4 * number - 4 : 4 * number].transpose(0, 2, 3, 1).reshape(4, 1024, 3)
        Image.fromarray(sheet).save(folder / f"data_batch_{number}.png")
    (folder / "train_lables.json").write_text(json.dumps(labels.tolist()))
    return tmp_path, images, labels


def test_a_png_sheet_becomes_the_canonical_file(package) -> None:
    folder, images, labels = package
    assert read_png_sheet(folder, "data_batch_2.bin", 4) == format_cifar(images[4:], labels[4:])


def test_a_sheet_of_another_size_is_refused(package) -> None:
    with pytest.raises(DataError, match=r"data_batch_1\.png"):
        read_png_sheet(package[0], "data_batch_1.bin", 5)


def test_a_cut_sheet_is_refused(package) -> None:
    sheet = package[0] / "package/data_batch_1.png"
    sheet.write_bytes(sheet.read_bytes()[:-2000])
    with pytest.raises(DataError, match=r"data_batch_1\.png"):
        read_png_sheet(package[0], "data_batch_1.bin", 4)


def test_a_wrong_batch_file_is_named(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(bytes(30_730_000))
    with pytest.raises(DataError, match=r"test_batch\.bin: its content has sha256"):
        load("cifar10", "test", data_dir=tmp_path)


def test_a_wrong_tarball_is_named(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"cifar-10-binary\.tar\.gz"):
        load("cifar10", "test", data_dir=tmp_path)

"""The core installs without these packages: importing needs none of them, and using one names its extra."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from torchcaps._extras import require
from torchcaps.data import ImageSet, contact_sheet, load
from torchcaps.data.datasets.cifar10 import read_png_sheet

INSTALL = r'pip install "torchcaps\[train\]"'


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make a package and its modules impossible to import."""

    def remove(package: str) -> None:
        for name in {package, *(each for each in sys.modules if each.startswith(f"{package}."))}:
            monkeypatch.setitem(sys.modules, name, None)

    return remove


def test_affnist_needs_scipy(without: Callable[[str], None], tmp_path: Path) -> None:
    (tmp_path / "test.mat").write_bytes(b"")
    without("scipy")
    with pytest.raises(
        ImportError, match=rf"^reading affNIST's \.mat files needs the extra 'train': {INSTALL}$"
    ):
        load("affine_mnist", "test", affnist=tmp_path / "test.mat")


def test_digits_need_scikit_learn(without: Callable[[str], None]) -> None:
    without("sklearn")
    with pytest.raises(ImportError, match=rf"^the digits data set needs the extra 'train': {INSTALL}$"):
        load("digits")


def test_image_files_need_pillow(without: Callable[[str], None], tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "a/1.png")
    files = load(f"folder:{tmp_path}", stream=True)
    without("PIL")
    with pytest.raises(ImportError, match=rf"^reading image files needs the extra 'train': {INSTALL}$"):
        load(f"folder:{tmp_path}")
    with pytest.raises(ImportError, match="needs the extra"):
        files[0]
    with pytest.raises(ImportError, match="needs the extra"):
        read_png_sheet(tmp_path, "data_batch_1.bin")


def test_contact_sheets_need_pillow(without: Callable[[str], None], tmp_path: Path) -> None:
    images = ImageSet(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 0]), ("a",))
    without("PIL")
    with pytest.raises(ImportError, match=rf"^drawing a contact sheet needs the extra 'train': {INSTALL}$"):
        contact_sheet(images, tmp_path / "sheet.png")


def test_a_module_that_an_installed_package_lacks_is_another_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("import something_else_entirely")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="something_else_entirely"):
        require("broken_package", extra="train", purpose="this test")


BARE = """
import sys
for name in ("PIL", "sklearn", "scipy", "matplotlib", "rich", "accelerate", "typer"):
    sys.modules[name] = None
import torchcaps.data
from torchcaps.data import list_datasets, load
from torchcaps.data.fetch.download import download
list_datasets()
boats = load("boats", "test", count=4)
toys = load("toys", "test", elevations=[0], azimuths=[0], lightings=[0], size=8)
batch = next(torchcaps.data.make_batches(boats, 4, train=True).epoch(0))
download(sys.argv[1], __import__("pathlib").Path(sys.argv[2]))
print(len(batch.images), len(toys))
"""


def test_the_core_works_without_them(tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(b"content")
    command = [sys.executable, "-c", BARE, (tmp_path / "file.bin").as_uri(), str(tmp_path / "copy.bin")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "4 25\n", done.stderr
    assert (tmp_path / "copy.bin").read_bytes() == b"content"

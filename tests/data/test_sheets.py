from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from torchcaps.data import ImageSet, contact_sheet


def imageset(channels: int, count: int = 12) -> ImageSet:
    images = torch.full((count, channels, 10, 10), 100, dtype=torch.uint8)
    return ImageSet(images, torch.arange(count) % 3, ("ant", "bee", "a very long name of a class indeed"))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_any_number_of_channels(tmp_path: Path, channels: int) -> None:
    path = contact_sheet(imageset(channels), tmp_path / "deep/sheet.png", 3, 4)
    with Image.open(path) as sheet:
        width = 80 * (1 if channels == 3 else channels)
        assert sheet.size == (4 * (width + 8) + 8, 3 * (80 + 19 + 8) + 8)
        pixels = np.asarray(sheet)
    assert (pixels[8:88, 8 : 8 + width] == 100).all()
    assert (pixels[88:107] < 100).any(), "labels are drawn"


def test_fewer_images_than_places(tmp_path: Path) -> None:
    with Image.open(contact_sheet(imageset(1, 2), tmp_path / "sheet.png", 5, 5)) as sheet:
        assert sheet.size == (2 * 88 + 8, 107 + 8)


def test_wrong_arguments_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rows"):
        contact_sheet(imageset(1), tmp_path / "sheet.png", 0, 5)
    with pytest.raises(ValueError, match="empty"):
        contact_sheet(imageset(1, 0), tmp_path / "sheet.png")

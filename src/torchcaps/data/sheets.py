from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps._checks import check_count
from torchcaps._extras import require
from torchcaps._files import replaced_on_success
from torchcaps.data.imagefiles import ImageFileSet
from torchcaps.data.imageset import ImageSet

MIN_CELL = 72
GAP = 8
FONT = 13
PAPER, INK, FRAME = (255, 255, 255), (40, 40, 40), (214, 214, 214)


def contact_sheet(
    imageset: ImageSet | ImageFileSet, path: str | os.PathLike[str], rows: int = 6, columns: int = 10
) -> Path:
    """Write a PNG with `rows`×`columns` images evenly spread over the set, each with its label below.

    Small images are enlarged by an integer factor, without smoothing; stereo pairs are side by side.

    Returns:
        The path.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> grays = ImageSet(torch.zeros(3, 1, 8, 8, dtype=torch.uint8), torch.arange(3), ("a", "b", "c"))
        >>> with TemporaryDirectory() as folder:
        ...     contact_sheet(grays, f"{folder}/grays.png", rows=1, columns=3).stat().st_size > 0
        True
    """
    check_count("rows", rows)
    check_count("columns", columns)
    if not len(imageset):
        raise ValueError("the data set is empty")
    pillow, drawing, fonts = (
        require(f"PIL.{module}", extra="train", purpose="drawing a contact sheet")
        for module in ("Image", "ImageDraw", "ImageFont")
    )
    indices = torch.linspace(0, len(imageset) - 1, min(rows * columns, len(imageset))).round().long()
    tiles = [_enlarge(as_rgb(image)) for image, _ in (imageset[index] for index in indices.tolist())]
    texts = [caption(imageset, index) for index in indices.tolist()]
    columns = min(columns, len(tiles))
    rows = -(-len(tiles) // columns)
    font = fonts.load_default(FONT)
    height, width = tiles[0].shape[:2]
    line = FONT + 6
    cell_width, cell_height = width + GAP, height + line + GAP
    page = pillow.new("RGB", (columns * cell_width + GAP, rows * cell_height + GAP), PAPER)
    draw = drawing.Draw(page)
    for place, (tile, text) in enumerate(zip(tiles, texts)):
        left = GAP + place % columns * cell_width
        top = GAP + place // columns * cell_height
        page.paste(pillow.fromarray(tile), (left, top))
        draw.rectangle((left - 1, top - 1, left + width, top + height), outline=FRAME)
        middle = (left + width / 2, top + height + line / 2)
        draw.text(middle, _shorten(text, width, font), fill=INK, font=font, anchor="mm")
    target = Path(path)
    with replaced_on_success(target) as temporary:
        page.save(temporary, format="PNG")
    return target


def as_rgb(image: Tensor) -> np.ndarray:
    """Convert uint8 `[C, H, W]` to `[H, W', 3]`: three channels as colors, others side by side in gray."""
    if len(image) == 3:
        return image.permute(1, 2, 0).contiguous().numpy()
    wide = torch.cat(list(image), dim=1)
    return wide.unsqueeze(-1).expand(-1, -1, 3).contiguous().numpy()


def caption(imageset: ImageSet | ImageFileSet, index: int) -> str:
    """The class or classes of one image.

    >>> two = ImageSet(torch.zeros(1, 1, 2, 2, dtype=torch.uint8), torch.tensor([[1, 0]]), ("cat", "dog"))
    >>> caption(two, 0)
    'dog, cat'
    """
    return ", ".join(imageset.classes[label] for label in imageset.labels[index].reshape(-1).tolist())


def _enlarge(tile: np.ndarray) -> np.ndarray:
    factor = max(1, -(-MIN_CELL // tile.shape[0]))
    return tile.repeat(factor, axis=0).repeat(factor, axis=1)


def _shorten(text: str, width: int, font: Any) -> str:
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}…") > width:
        text = text[:-1]
    return f"{text}…"

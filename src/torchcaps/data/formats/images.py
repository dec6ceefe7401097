"""Image files (PNG, JPEG and others that Pillow reads) as uint8 tensors of one size."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps._extras import require
from torchcaps.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
GRAY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L")
LARGEST_KEPT = 128
DEFAULT_SIZE = 64
ORIENTATION_TAG = 0x0112
PURPOSE = "reading image files"


def common_form(paths: Sequence[Path], size: int | None) -> tuple[tuple[int, int], bool]:
    """Choose one image size for all files, from their headers.

    Args:
        paths: the image files.
        size: side of a square to use in any case.

    Returns:
        Height and width, and whether all images are gray. Without `size` the images keep theirs if they all
        share one of at most 128 pixels, and become 64×64 if not.
    """
    sizes, gray = set(), True
    for path in paths:
        with open_image(path) as image:
            height, width = image.height, image.width
            sizes.add((width, height) if swaps_sides(image, path) else (height, width))
            gray = gray and image.mode in GRAY_MODES
    if size is not None:
        return (size, size), gray
    shared = sizes.pop() if len(sizes) == 1 else (0, 0)
    return (shared if 0 < max(shared) <= LARGEST_KEPT else (DEFAULT_SIZE, DEFAULT_SIZE)), gray


def swaps_sides(image: Any, path: Path) -> bool:
    """Whether the camera's orientation tag swaps width and height."""
    base = require("PIL.Image", extra="train", purpose=PURPOSE).Image
    try:
        # Not the method of PNG files, which decodes all pixels to look for a tag behind them.
        return base.getexif(image).get(ORIENTATION_TAG, 1) >= 5
    except (OSError, ValueError, SyntaxError, EOFError) as fault:
        raise DataError.in_file(path, f"the image is damaged or cut short ({fault})") from fault


def open_image(path: Path) -> Any:
    """Open an image file with Pillow.

    Raises:
        DataError: it cannot be read as an image; the message names the file.
    """
    pillow = require("PIL.Image", extra="train", purpose=PURPOSE)
    try:
        return pillow.open(path)
    except (OSError, ValueError, pillow.DecompressionBombError) as fault:
        raise DataError.in_file(path, f"it is not an image that can be read ({fault})") from fault


def read_image(path: str | os.PathLike[str], shape: tuple[int, int], gray: bool) -> Tensor:
    """Read one image file, scaled to cover `shape` and cropped at the center.

    Transparent pixels become white; photographs are rotated as their orientation tag says.

    Args:
        path: the file.
        shape: height and width of the result.
        gray: whether to give one channel rather than three.

    Returns:
        uint8 `[1, H, W]` or `[3, H, W]`.

    Raises:
        DataError: the file is damaged or no image; the message names it.
    """
    pillow = require("PIL.Image", extra="train", purpose=PURPOSE)
    operations = require("PIL.ImageOps", extra="train", purpose=PURPOSE)
    path = Path(path)
    with open_image(path) as image:
        try:
            image = operations.exif_transpose(image)
            if image.mode.startswith("I;16") or image.mode in ("I", "F"):
                image = pillow.fromarray(to_8_bits(np.asarray(image)))
            elif "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
                image = image.convert("RGBA")
                image = pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), image)
            image = image.convert("L" if gray else "RGB")
            if image.size != (shape[1], shape[0]):
                image = operations.fit(image, (shape[1], shape[0]), pillow.Resampling.BILINEAR)
        except (OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError) as fault:
            raise DataError.in_file(path, f"the image is damaged or cut short ({fault})") from fault
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if gray else pixels.permute(2, 0, 1)


def to_8_bits(pixels: np.ndarray) -> np.ndarray:
    """Scale pixels of more than 8 bits to 0..255.

    16-bit integers are scaled by their range; other types only if a value exceeds 255.

    >>> to_8_bits(np.array([[0, 65535]], dtype=np.uint16)).tolist()
    [[0, 255]]
    """
    if pixels.dtype == np.uint16 or pixels.max(initial=0) > 255:
        pixels = pixels.astype(np.float64) / 257
    return pixels.round().clip(0, 255).astype(np.uint8)

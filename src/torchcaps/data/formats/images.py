"""Image files (PNG, JPEG and others that Pillow reads) as uint8 tensors of one size."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps._extras import require
from torchcaps.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
# What is read from bytes, which may come from anybody: Pillow also runs other programs for rare formats.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
GRAY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L")
LARGEST_KEPT = 128
DEFAULT_SIZE = 64
MAX_PIXELS = 50_000_000
"""Width times height of the largest image that is decoded by default; one takes up to 0.6 GB of memory."""

WIDTH_TAG, HEIGHT_TAG, ORIENTATION_TAG = 0x0100, 0x0101, 0x0112
# What turns a photograph upright, by the value of its orientation tag: names in `PIL.Image.Transpose`.
ROTATIONS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
SIDES_SWAPPED = ("TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
PURPOSE = "reading image files"


def common_form(
    paths: Sequence[Path], size: int | None, max_pixels: int = MAX_PIXELS
) -> tuple[tuple[int, int], bool]:
    """Choose one image size for all files, from their headers.

    Args:
        paths: the image files.
        size: side of a square to use in any case.
        max_pixels: width times height of the largest image that is accepted.

    Returns:
        Height and width, and whether all images are gray. Without `size` the images keep theirs if they all
        share one of at most 128 pixels, and become 64×64 if not.
    """
    sizes, gray = set(), True
    for path in paths:
        with open_image(path, max_pixels) as image:
            sizes.add(upright_shape(image))
            gray = gray and image.mode in GRAY_MODES
    if size is not None:
        return (size, size), gray
    shared = sizes.pop() if len(sizes) == 1 else (0, 0)
    return (shared if 0 < max(shared) <= LARGEST_KEPT else (DEFAULT_SIZE, DEFAULT_SIZE)), gray


def upright_shape(image: Any) -> tuple[int, int]:
    """Height and width of an open image file, as it is seen after the rotation that its tag asks for."""
    # Of TIFF files, Pillow gives the size after rotation or before it, depending on its version.
    stored = getattr(image, "tag_v2", {})
    width, height = stored.get(WIDTH_TAG, image.width), stored.get(HEIGHT_TAG, image.height)
    return (width, height) if rotation(image) in SIDES_SWAPPED else (height, width)


def rotation(image: Any) -> str | None:
    """The transposition that the camera's orientation tag asks for; None without a tag that can be read."""
    base = require("PIL.Image", extra="train", purpose=PURPOSE).Image
    try:
        # Not the method of PNG files, which decodes all pixels to look for a tag behind them.
        value = base.getexif(image).get(ORIENTATION_TAG)
        return next((name for number, name in ROTATIONS.items() if value == number), None)
    except Exception:  # damaged tags make Pillow raise many kinds; the pixels may still be good
        return None


def open_image(path: Path, max_pixels: int = MAX_PIXELS, content: bytes | None = None) -> Any:
    """Open an image file with Pillow, which reads its header only.

    Args:
        path: the file.
        max_pixels: width times height of the largest image that is accepted.
        content: the bytes of the file, if they are in memory; then the path is only its name in messages.

    Raises:
        DataError: it cannot be read as an image, or has more than `max_pixels`; the message names the file.
    """
    pillow = require("PIL.Image", extra="train", purpose=PURPOSE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pillow.DecompressionBombWarning)  # max_pixels decides
            image = pillow.open(path) if content is None else pillow.open(BytesIO(content), formats=FORMATS)
    except pillow.DecompressionBombError as fault:
        raise DataError.in_file(
            path, f"{fault} Scale it down, or raise max_pixels and PIL.Image.MAX_IMAGE_PIXELS"
        ) from fault
    except FileNotFoundError as fault:
        raise DataError.in_file(path, "there is no such file") from fault
    except (OSError, ValueError) as fault:
        reason = fault if content is None else f"known are {', '.join(FORMATS)}"
        raise DataError.in_file(path, f"it is not an image that can be read ({reason})") from fault
    if image.width * image.height > max_pixels:
        size = f"{image.width}×{image.height}"
        image.close()
        more = "" if content else ", or allow more with the option max_pixels of the data set 'folder'"
        raise DataError.in_file(
            path, f"it has {size} pixels; at most {max_pixels} are read: scale it down{more}"
        )
    return image


def read_image(
    path: str | os.PathLike[str],
    shape: tuple[int, int],
    gray: bool,
    max_pixels: int = MAX_PIXELS,
    content: bytes | None = None,
    *,
    pad: bool = False,
) -> Tensor:
    """Read one image file, scaled to cover `shape` and cropped at the center, or padded to it.

    Transparent pixels become white; photographs are rotated as their orientation tag says.

    Args:
        path: the file.
        shape: height and width of the result.
        gray: whether to give one channel rather than three.
        max_pixels: width times height of the largest file that is decoded.
        content: the bytes of the file, if they are in memory; then the path is only its name in messages.
        pad: scale the image so that all of it is inside of `shape`, and fill the rest with the mean color of
            its border.

    Returns:
        uint8 `[1, H, W]` or `[3, H, W]`.

    Raises:
        DataError: the file is damaged, too large or no image, or has pixels that are not finite numbers; the
            message names it.
    """
    pillow = require("PIL.Image", extra="train", purpose=PURPOSE)
    operations = require("PIL.ImageOps", extra="train", purpose=PURPOSE)
    path = Path(path)
    with open_image(path, max_pixels, content) as image:
        try:
            image.load()
            transposition = rotation(image)
            if transposition is not None:
                image = image.transpose(pillow.Transpose[transposition])
            if image.mode.startswith("I;16") or image.mode in ("I", "F"):
                image = pillow.fromarray(to_8_bits(finite_pixels(np.asarray(image), path)))
            elif "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
                image = image.convert("RGBA")
                image = pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), image)
            image = image.convert("L" if gray else "RGB")
            size = (shape[1], shape[0])
            if image.size != size and pad:
                image = padded(image, size)
            elif image.size != size:
                image = operations.fit(image, size, pillow.Resampling.BILINEAR)
        except DataError:
            raise
        except (OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError) as fault:
            raise DataError.in_file(path, f"the image is damaged or cut short ({fault})") from fault
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if gray else pixels.permute(2, 0, 1)


def padded(image: Any, size: tuple[int, int]) -> Any:
    """A gray or RGB image of Pillow, scaled until its longer side fits, in the middle of its border's color.

    Args:
        image: the image.
        size: width and height of the result.

    Example:
        >>> from PIL import Image
        >>> padded(Image.new("L", (80, 20), 7), (16, 16)).getextrema()
        (7, 7)
    """
    pillow = require("PIL.Image", extra="train", purpose=PURPOSE)
    factor = min(size[0] / image.width, size[1] / image.height)
    inner = [max(1, round(factor * side)) for side in image.size]
    result = pillow.new(image.mode, size, border_color(image))
    corner = ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2)
    result.paste(image.resize(inner, pillow.Resampling.BILINEAR), corner)
    return result


def border_color(image: Any) -> int | tuple[int, ...]:
    """Mean color of the outermost pixels of a gray or RGB image, as Pillow takes it.

    A border that looks like the image's own keeps ink on paper apart from chalk on a board, which readers
    tell by the border; see `torchcaps.training.prediction.inverted`.

    >>> from PIL import Image
    >>> border_color(Image.new("RGB", (5, 4), (10, 20, 30)))
    (10, 20, 30)
    """
    pixels = np.asarray(image)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    color = border.mean(0).round().astype(int).tolist()
    return color if isinstance(color, int) else tuple(color)


def finite_pixels(pixels: np.ndarray, path: Path) -> np.ndarray:
    """The same pixels, or a `DataError` that names `path` if any is NaN or infinite."""
    wrong = pixels.size - int(np.isfinite(pixels).sum())
    if wrong:
        raise DataError.in_file(path, f"{wrong} of {pixels.size} pixels are not finite numbers")
    return pixels


def to_8_bits(pixels: np.ndarray) -> np.ndarray:
    """Scale pixels of more than 8 bits to 0..255.

    16-bit integers are scaled by their range; other types only if a value exceeds 255.

    >>> to_8_bits(np.array([[0, 65535]], dtype=np.uint16)).tolist()
    [[0, 255]]
    """
    if pixels.dtype == np.uint16 or pixels.max(initial=0) > 255:
        pixels = pixels.astype(np.float64) / 257
    return pixels.round().clip(0, 255).astype(np.uint8)

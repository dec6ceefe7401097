from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchcaps._checks import check_choice, check_count
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.errors import DataError

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
GRAY_MODES = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16B", "I;16L")
LARGEST_KEPT = 128
DEFAULT_SIZE = 64


@register_dataset("folder")
def folder(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    size: int | None = None,
    held_out: float = 0.2,
    seed: int = 0,
) -> ImageSet:
    """Load your own images, one sub-folder per class: `[N, 1, H, W]` if all are gray, else `[N, 3, H, W]`.

    - `data_dir`: the folder. With sub-folders `train` and `test` in it, the classes are in those; otherwise
      `held_out` of each class (chosen by `seed`) is the test split.
    - `size`: images are scaled and cropped in the middle to this square. By default they keep their size if
      they all share one of at most 128 pixels, and become 64×64 if not.

    Metadata: none. Transparent pixels become white; photographs are turned as their camera noted.
    """
    check_choice("split", split, ("train", "test"))
    if size is not None:
        check_count("size", size)
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must be between 0 and 1, got {held_out!r}")
    if data_dir is None:
        raise ValueError("the folder of images is missing: give data_dir=PATH, or load 'folder:PATH'")
    root = Path(data_dir).expanduser()
    if not root.is_dir():
        raise DataError.in_file(root, "there is no such folder")
    files = {"train": files_by_class(root / "train"), "test": files_by_class(root / "test")}
    if not files["train"] or not files["test"]:
        files = hold_out(files["train"] or files_by_class(root), held_out, seed)
    classes = tuple(sorted(files["train"]))
    if not classes:
        endings = ", ".join(ENDINGS)
        raise DataError.in_file(root, f"no class sub-folders with images in them ({endings})")
    strange = sorted(set(files["test"]) - set(classes))
    if strange:
        raise DataError.in_file(root / "test" / strange[0], "this class has no train images")
    # Both splits are looked at, so that they agree in size and channels.
    everything = [path for part in files.values() for paths in part.values() for path in paths]
    shape, gray = common_form(everything, size)
    chosen = [(path, label) for label, name in enumerate(classes) for path in files[split].get(name, ())]
    images = torch.empty(len(chosen), 1 if gray else 3, *shape, dtype=torch.uint8)
    for place, (path, _) in enumerate(chosen):
        images[place] = read_image(path, shape, gray)
    return ImageSet(images, torch.tensor([label for _, label in chosen], dtype=torch.int64), classes)


def files_by_class(root: Path) -> dict[str, list[Path]]:
    """List the image files in each sub-folder of `root`, at any depth, sorted; empty ones are left out."""
    if not root.is_dir():
        return {}
    found = {}
    for sub in sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")):
        files = [path for path in sub.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file()]
        files = sorted(path for path in files if not path.name.startswith("."))
        if files:
            found[sub.name] = files
    return found


def hold_out(files: dict[str, list[Path]], share: float, seed: int) -> dict[str, dict[str, list[Path]]]:
    """Split each class by `seed`; one image at least is for training, and one for test if there are two."""
    parts: dict[str, dict[str, list[Path]]] = {"train": {}, "test": {}}
    generator = torch.Generator().manual_seed(seed)
    for name, paths in files.items():
        order = torch.randperm(len(paths), generator=generator).tolist()
        test = min(max(1, round(len(paths) * share)), len(paths) - 1)
        parts["train"][name] = [paths[place] for place in sorted(order[test:])]
        parts["test"][name] = [paths[place] for place in sorted(order[:test])]
    return parts


def common_form(paths: Sequence[Path], size: int | None) -> tuple[tuple[int, int], bool]:
    """Find the height and width to use and whether all images are gray, from the files' headers."""
    sizes, gray = set(), True
    for path in paths:
        with opened(path) as image:
            turned = is_turned(image, path)
            sizes.add((image.width, image.height) if turned else (image.height, image.width))
            gray = gray and image.mode in GRAY_MODES
    if size is not None:
        return (size, size), gray
    only = sizes.pop() if len(sizes) == 1 else (0, 0)
    return (only if 0 < max(only) <= LARGEST_KEPT else (DEFAULT_SIZE, DEFAULT_SIZE)), gray


def is_turned(image: Any, path: Path) -> bool:
    """Say whether the camera noted that width and height are to be swapped."""
    try:
        return image.getexif().get(0x0112, 1) >= 5
    except (OSError, ValueError, SyntaxError, EOFError) as fault:
        raise DataError.in_file(path, f"the image is damaged or cut short ({fault})") from fault


def opened(path: Path) -> Any:
    """Open an image file; a `DataError` names one that is none."""
    from PIL import Image

    try:
        return Image.open(path)
    except (OSError, ValueError, Image.DecompressionBombError) as fault:
        raise DataError.in_file(path, f"it is not an image that can be read ({fault})") from fault


def read_image(path: str | os.PathLike[str], shape: tuple[int, int], gray: bool) -> Tensor:
    """Read one image file, scaled to cover `shape` and cropped in the middle: uint8 `[1 or 3, *shape]`."""
    from PIL import Image, ImageOps

    path = Path(path)
    with opened(path) as image:
        try:
            image = ImageOps.exif_transpose(image)
            if image.mode.startswith("I;16") or image.mode in ("I", "F"):
                image = Image.fromarray(deep_to_bytes(np.asarray(image)))
            elif "transparency" in image.info or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            image = image.convert("L" if gray else "RGB")
            if image.size != (shape[1], shape[0]):
                image = ImageOps.fit(image, (shape[1], shape[0]), Image.Resampling.BILINEAR)
        except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as fault:
            raise DataError.in_file(path, f"the image is damaged or cut short ({fault})") from fault
    pixels = torch.from_numpy(np.array(image))
    return pixels.unsqueeze(0) if gray else pixels.permute(2, 0, 1)


def deep_to_bytes(pixels: np.ndarray) -> np.ndarray:
    """Scale pixels of more than 8 bits to 0..255: 16-bit whole numbers by their range, others if they
    exceed it.

    >>> deep_to_bytes(np.array([[0, 65535]], dtype=np.uint16)).tolist()
    [[0, 255]]
    """
    if pixels.dtype == np.uint16 or pixels.max(initial=0) > 255:
        pixels = pixels.astype(np.float64) / 257
    return pixels.round().clip(0, 255).astype(np.uint8)

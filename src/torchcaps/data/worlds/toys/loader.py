from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache

import torch

from torchcaps._checks import check_count
from torchcaps.data.datasets.norb import RECIPE, check_viewpoint, familiar_split, select_views
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.data.worlds.toys.files import as_image_set, find, find_or_render
from torchcaps.data.worlds.toys.rendering import render_table
from torchcaps.data.worlds.toys.table import AZIMUTHS, ELEVATIONS, LIGHTINGS, table


@register_dataset("toys", recipe=RECIPE, eval_split=familiar_split)
def toys(
    split: str = "train",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    stereo: bool = True,
    size: int = 48,
    shadows: bool = True,
    seed: int = 0,
    viewpoint: str | None = None,
    elevations: Sequence[int] | None = None,
    azimuths: Sequence[int] | None = None,
    lightings: Sequence[int] | None = None,
) -> ImageSet:
    """Load rendered toys, a world like smallNORB: 24,300 train and 24,300 test pairs of others, 5 classes.

    - `stereo`: images `[N, 2, size, size]` of both cameras, otherwise `[N, 1, size, size]` of the left one.
    - `size`: pixels along each side; rendered at that size, with four rays to a pixel.
    - `shadows`: whether lamps cast them, on the ground and on the toy itself.
    - `seed`: of the workshop that builds and paints the toys, and of the order.
    - `viewpoint`: `"azimuth"` or `"elevation"` for the novel-viewpoint experiments, whose splits are `train`
      (azimuths 300° … 40°, or the three lowest elevations), `test_familiar` (test toys seen from those) and
      `test_novel` (test toys seen from all others).
    - `elevations`, `azimuths`, `lightings`: only these views, coded as in the metadata.
    - `data_dir`: where a set made before may lie, in `toys/`; otherwise the cache.

    The whole set is made on first use, in a minute or two, and kept in smallNORB's file format; a few views
    are rendered at once and kept in memory only.

    Metadata: `instance`, `elevation` (0 … 8: 30° … 70°), `azimuth` (0, 2 … 34, in 10°) and `lighting`
    (0 … 5), int64 `[N]`.

    Example:
        >>> few = toys("test", elevations=[0], azimuths=[0], lightings=[2], size=24)
        >>> few.images.shape, few.classes
        (torch.Size([25, 2, 24, 24]), ('animal', 'human', 'plane', 'truck', 'car'))
    """
    check_viewpoint(split, viewpoint)
    check_count("size", size)
    views = {
        "elevation": _views("elevations", elevations, ELEVATIONS),
        "azimuth": _views("azimuths", azimuths, AZIMUTHS),
        "lighting": _views("lightings", lightings, LIGHTINGS),
    }
    whole = split.partition("_")[0]
    if elevations is azimuths is lightings is None:
        images = find_or_render(
            whole, data_dir=data_dir, stereo=stereo, size=size, shadows=shadows, seed=seed
        )
    else:
        found = find(whole, data_dir=data_dir, stereo=stereo, size=size, shadows=shadows, seed=seed)
        if found is not None:
            kept = [torch.isin(found.metadata[fact], torch.tensor(codes)) for fact, codes in views.items()]
            images = found.select(kept[0] & kept[1] & kept[2])
        else:
            codes = tuple(tuple(views[fact]) for fact in ("elevation", "azimuth", "lighting"))
            images = _few(whole, codes, stereo=stereo, size=size, shadows=shadows, seed=seed)
    return images if viewpoint is None else select_views(images, viewpoint, novel=split == "test_novel")


# An experiment trains several networks on the same few views, which take longer to render than to keep.
@lru_cache(maxsize=4)
def _few(
    split: str, codes: tuple[tuple[int, ...], ...], *, stereo: bool, size: int, shadows: bool, seed: int
) -> ImageSet:
    elevations, azimuths, lightings = codes
    rows = table(split, seed=seed, elevations=elevations, azimuths=azimuths, lightings=lightings)
    return as_image_set(render_table(rows, size=size, shadows=shadows, seed=seed), rows, stereo=stereo)


def _views(what: str, chosen: Sequence[int] | None, known: Sequence[int]) -> list[int]:
    if chosen is None:
        return list(known)
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(f"{what} must be one or more of {list(known)}, got {list(chosen)}")
    return list(chosen)

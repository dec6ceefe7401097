from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from torchcaps._checks import check_count, check_flag
from torchcaps.data.datasets.norb import RECIPE, check_viewpoint, familiar_split, select_views
from torchcaps.data.imageset import ImageSet
from torchcaps.data.registry import register_dataset
from torchcaps.data.worlds.toys.clutter import change_toys
from torchcaps.data.worlds.toys.files import as_image_set, find, find_or_render
from torchcaps.data.worlds.toys.rendering import render_table
from torchcaps.data.worlds.toys.table import AZIMUTHS, ELEVATIONS, LIGHTINGS, TOYS, table


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
    toys_per_category: int = TOYS,
    jitter: int = 0,
    clutter: bool = False,
) -> ImageSet:
    """Load rendered toys, a set like smallNORB: 24,300 train and 24,300 test pairs of other toys, 5 classes.

    The complete set is rendered on first use, in a minute or two, and kept in the cache in smallNORB's file
    format. A selection of views is rendered at once and kept in memory only.

    Metadata, int64 `[N]`: `instance`, `elevation` (0 … 8: 30° … 70°), `azimuth` (0, 2 … 34, in 10°) and
    `lighting` (0 … 5).

    Args:
        split: `"train"` or `"test"`, or one of those of `viewpoint`.
        data_dir: a directory whose folder `toys/` may hold the rendered set; by default the cache.
        stereo: images `[N, 2, size, size]` of both cameras, otherwise `[N, 1, size, size]` of the left one.
        size: pixels along each side; rendered at that size, with four rays per pixel.
        shadows: whether lamps cast them, on the ground and on the toy itself.
        seed: of the toys' paint, proportions and place, and of the order of the images.
        viewpoint: `"azimuth"` or `"elevation"` for the novel-viewpoint experiments, whose splits are `train`
            (azimuths 300° … 40°, or the three lowest elevations), `test_familiar` (test toys seen from
            those) and `test_novel` (test toys seen from all others).
        elevations: only these, coded as in the metadata.
        azimuths: only these, coded as in the metadata.
        lightings: only these.
        toys_per_category: 5 as in smallNORB, whose test toys have other designs than the train toys; or from
            10 on toys of ten designs with random proportions, in both splits, ten of them in the test split.
            The second kind is rendered each time: select views, so that it does not take long.
        jitter: move each toy by up to so many pixels, and rotate, scale and shade it at random, as in the
            jittered-cluttered NORB set; see `change_toys`.
        clutter: put gray shapes on the ground around the toy.

    Example:
        >>> some = toys("test", elevations=[0], azimuths=[0], lightings=[2], size=24)
        >>> some.images.shape, some.classes
        (torch.Size([25, 2, 24, 24]), ('animal', 'human', 'plane', 'truck', 'car'))
    """
    check_viewpoint(split, viewpoint)
    check_count("size", size)
    check_toys(toys_per_category)
    check_count("jitter", jitter, minimum=0)
    check_flag("clutter", clutter)
    views = {
        "elevation": _check_codes("elevations", elevations, ELEVATIONS),
        "azimuth": _check_codes("azimuths", azimuths, AZIMUTHS),
        "lighting": _check_codes("lightings", lightings, LIGHTINGS),
    }
    base_split = split.partition("_")[0]
    codes = tuple(tuple(views[fact]) for fact in ("elevation", "azimuth", "lighting"))
    options: dict[str, Any] = {"stereo": stereo, "size": size, "shadows": shadows, "seed": seed}
    if toys_per_category != TOYS:
        images = _render_codes(base_split, codes, toys_per_category, **options)
    elif elevations is azimuths is lightings is None:
        images = find_or_render(base_split, data_dir=data_dir, **options)
    else:
        rendered = find(base_split, data_dir=data_dir, **options)
        if rendered is not None:
            kept = [torch.isin(rendered.metadata[fact], torch.tensor(codes)) for fact, codes in views.items()]
            images = rendered.select(kept[0] & kept[1] & kept[2])
        else:
            images = _render_codes(base_split, codes, TOYS, **options)
    if viewpoint is not None:
        images = select_views(images, viewpoint, novel=split == "test_novel")
    if jitter or clutter:
        images = change_toys(images, base_split, jitter=jitter, clutter=clutter, seed=seed)
    return images


# Kept, because an experiment trains several networks on the same views, and rendering takes long.
@lru_cache(maxsize=4)
def _render_codes(
    split: str,
    codes: tuple[tuple[int, ...], ...],
    toys_per_category: int,
    *,
    stereo: bool,
    size: int,
    shadows: bool,
    seed: int,
) -> ImageSet:
    elevations, azimuths, lightings = codes
    rows = table(
        split,
        seed=seed,
        toys_per_category=toys_per_category,
        elevations=elevations,
        azimuths=azimuths,
        lightings=lightings,
    )
    return as_image_set(render_table(rows, size=size, shadows=shadows, seed=seed), rows, stereo=stereo)


def check_toys(count: int) -> None:
    """Check the option `toys_per_category`."""
    if check_count("toys_per_category", count) != TOYS and count < 2 * TOYS:
        raise ValueError(f"toys_per_category must be {TOYS}, or {2 * TOYS} or more, got {count}")


def _check_codes(name: str, codes: Sequence[int] | None, known: Sequence[int]) -> list[int]:
    if codes is None:
        return list(known)
    if not codes or not set(codes) <= set(known):
        raise ValueError(f"{name} must be one or more of {list(known)}, got {list(codes)}")
    return list(codes)

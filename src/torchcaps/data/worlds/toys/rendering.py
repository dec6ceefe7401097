from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from torchcaps._registry import suggest
from torchcaps.data.progress import progress_bar
from torchcaps.data.worlds.toys.assembly import Toy, build_toy
from torchcaps.data.worlds.toys.cameras import stereo
from torchcaps.data.worlds.toys.lighting import LIGHTS, Light, shade
from torchcaps.data.worlds.toys.raycast import cast_rays
from torchcaps.data.worlds.toys.surfaces import surface
from torchcaps.data.worlds.toys.table import Table, azimuth_degrees, elevation_degrees

EYES = {"left": slice(0, 1), "right": slice(1, 2), "both": slice(0, 2)}
SAMPLES = 2
"""Rays per pixel, along each side."""

MANY_JOBS = 100
"""From so many jobs on, rendering takes long enough for a progress bar."""


def render(
    category: str | int,
    instance: int,
    azimuth: float,
    elevation: float,
    lighting: int,
    *,
    size: int = 48,
    shadows: bool = True,
    eye: str = "both",
    seed: int = 0,
) -> Tensor:
    """Render one toy from any viewpoint.

    Args:
        category: name or number, see `CATEGORIES`.
        instance: 0 to 9 are the designs; higher numbers are the same designs in other proportions.
        azimuth: degrees, any number; at 0 the camera is in front of the toy.
        elevation: degrees above the ground, 0 to 90.
        lighting: 0 to 5.
        size: pixels along each side.
        shadows: whether the lamps cast them.
        eye: `"left"`, `"right"` or `"both"` of the stereo pair.
        seed: of the toy's paint, proportions and place.

    Returns:
        uint8 `[1, size, size]`, or `[2, size, size]` for both eyes.

    Example:
        >>> render("car", 3, azimuth=12.5, elevation=40, lighting=0, eye="left").shape
        torch.Size([1, 48, 48])
    """
    if eye not in EYES:
        raise ValueError(f"unknown eye {eye!r}: {suggest(eye, EYES)}")
    if not 0 <= lighting < len(LIGHTS):
        raise ValueError(f"lighting must be 0 to {len(LIGHTS) - 1}, got {lighting}")
    if not 0 <= elevation <= 90:
        raise ValueError(f"elevation must be 0 to 90 degrees, got {elevation}")
    if not np.isfinite(azimuth):
        raise ValueError(f"azimuth must be a finite number of degrees, got {azimuth}")
    if size < 1:
        raise ValueError(f"size must be at least 1 pixel, got {size}")
    toy = build_toy(category, instance, seed=seed)
    pairs = render_views(toy, azimuth, [elevation], [LIGHTS[lighting]], size=size, shadows=shadows)
    return torch.from_numpy(pairs[0, 0, EYES[eye]])


def render_views(
    toy: Toy,
    azimuth: float,
    elevations: Sequence[float],
    lights: Sequence[Light],
    *,
    size: int,
    shadows: bool,
) -> np.ndarray:
    """Render stereo pairs of a toy from one azimuth, several elevations, under several lightings.

    Rays are cast once and shaded once per lighting; the lamps' shadow maps serve all elevations.

    Args:
        toy: what to render.
        azimuth: degrees.
        elevations: E of them, degrees.
        lights: L of them.
        size: pixels along each side.
        shadows: whether the lamps cast them.

    Returns:
        uint8 `[E, L, 2, size, size]`, left camera first.
    """
    center = np.array(toy.center)
    cameras = stereo([azimuth] * len(elevations), elevations, center)
    hits = cast_rays(toy.solids, cameras, size * SAMPLES)
    visible = surface(toy.solids, cameras, hits)
    brightness = shade(toy.solids, visible, azimuth, lights, center, shadows=shadows)
    samples = brightness.reshape(len(lights), len(elevations), 2, size * SAMPLES, size * SAMPLES)
    first, second = samples[..., 0::2, :], samples[..., 1::2, :]
    rows = first + second
    pixels = (rows[..., 0::2] + rows[..., 1::2]) * (255 / SAMPLES**2)
    return np.rint(np.clip(pixels, 0, 255)).astype(np.uint8).swapaxes(0, 1)


def render_table(
    rows: Table, *, size: int = 48, shadows: bool = True, seed: int = 0, workers: int | None = None
) -> np.ndarray:
    """Render the images that a table lists.

    All elevations and lightings of a toy at one azimuth share their rays and shadow maps and are one job.
    Jobs run in threads; the result does not depend on how many there are.

    Args:
        rows: N images.
        size: pixels along each side.
        shadows: whether the lamps cast them.
        seed: of the toys' paint, proportions and place.
        workers: threads, by default as many as there are cores.

    Returns:
        uint8 `[N, 2, size, size]`.

    Example:
        >>> from torchcaps.data.worlds.toys.table import table
        >>> render_table(table("test", elevations=[0], azimuths=[4], lightings=[1]), size=16).shape
        (25, 2, 16, 16)
    """
    images = np.empty((len(rows.category), 2, size, size), dtype=np.uint8)
    job_keys = np.stack([rows.category, rows.info[:, 0], rows.info[:, 2]], axis=1)
    jobs, job_of_row = np.unique(job_keys, axis=0, return_inverse=True)
    rows_by_job = np.split(
        np.argsort(job_of_row, kind="stable"), np.cumsum(np.bincount(job_of_row.reshape(-1)))[:-1]
    )

    def run(job: int) -> None:
        category, instance, azimuth = jobs[job].tolist()
        of_job = rows_by_job[job]
        elevations, at_elevation = np.unique(rows.info[of_job, 1], return_inverse=True)
        lightings, at_lighting = np.unique(rows.info[of_job, 3], return_inverse=True)
        views = render_views(
            build_toy(category, instance, seed=seed),
            azimuth_degrees(azimuth),
            [elevation_degrees(code) for code in elevations.tolist()],
            [LIGHTS[code] for code in lightings.tolist()],
            size=size,
            shadows=shadows,
        )
        images[of_job] = views[at_elevation, at_lighting]

    bar = progress_bar("Rendering toys", len(jobs), disable=len(jobs) < MANY_JOBS)
    with bar as advance, ThreadPoolExecutor(workers or _cores(), thread_name_prefix="toys") as pool:
        for _ in pool.map(run, range(len(jobs))):
            advance(1)
    return images


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from torchcaps.data.progress import progress_bar
from torchcaps.data.worlds.toys.lighting import LIGHTS
from torchcaps.data.worlds.toys.picture import pictures
from torchcaps.data.worlds.toys.stage import toy
from torchcaps.data.worlds.toys.table import Table, azimuth_degrees, elevation_degrees

MANY = 100
"""Jobs that take long enough for a progress bar."""


def photograph(
    rows: Table, *, size: int = 48, shadows: bool = True, seed: int = 0, workers: int | None = None
) -> np.ndarray:
    """Take the pictures that a table lists.

    All elevations and lightings of a toy at one azimuth share their rays and shadow maps and are one job.
    Jobs run in threads; what they compute does not depend on how many there are.

    Args:
        rows: N pictures to take.
        size: pixels along each side.
        shadows: whether the lamps cast them.
        seed: of the workshop that builds the toys.
        workers: threads, as many as there are cores unless told.

    Returns:
        uint8 `[N, 2, size, size]`.

    Example:
        >>> from torchcaps.data.worlds.toys.table import table
        >>> photograph(table("test", elevations=[0], azimuths=[4], lightings=[1]), size=16).shape
        (25, 2, 16, 16)
    """
    images = np.empty((len(rows.category), 2, size, size), dtype=np.uint8)
    stand = np.stack([rows.category, rows.info[:, 0], rows.info[:, 2]], axis=1)
    stands, job_of_row = np.unique(stand, axis=0, return_inverse=True)
    rows_by_job = np.split(
        np.argsort(job_of_row, kind="stable"), np.cumsum(np.bincount(job_of_row.reshape(-1)))[:-1]
    )

    def take(job: int) -> None:
        category, instance, azimuth = stands[job].tolist()
        mine = rows_by_job[job]
        elevations, at_elevation = np.unique(rows.info[mine, 1], return_inverse=True)
        lightings, at_lighting = np.unique(rows.info[mine, 3], return_inverse=True)
        staged = toy(category, instance, seed=seed)
        taken = pictures(
            staged.solids,
            np.array(staged.target),
            azimuth_degrees(azimuth),
            [elevation_degrees(code) for code in elevations.tolist()],
            [LIGHTS[code] for code in lightings.tolist()],
            size=size,
            shadows=shadows,
        )
        images[mine] = taken[at_elevation, at_lighting]

    bar = progress_bar("Rendering toys", len(stands), disable=len(stands) < MANY)
    with bar as advance, ThreadPoolExecutor(workers or _cores(), thread_name_prefix="toys") as pool:
        for _ in pool.map(take, range(len(stands))):
            advance(1)
    return images


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

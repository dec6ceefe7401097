from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from torchcaps.data.worlds.boats.relations import CORNERS, PARTS, RECTANGLE
from torchcaps.data.worlds.boats.scenes import Scene

_GAP = 0.7  # dark pixels around each part, which separate parts that touch or overlap
_BAND = -0.22  # the rectangle is darker below this height, which shows which way up it is
_BAND_SHADE = 0.45
_PIXELS_AT_A_TIME = 1 << 15  # as many as fit into the processor's cache


def draw(scenes: Sequence[Scene], size: int = 48) -> Tensor:
    """Draw scenes, later parts over earlier ones, with smooth edges.

    Args:
        scenes: N of them.
        size: pixels along each side.

    Returns:
        uint8 `[N, 1, size, size]`, bright parts on black.

    Example:
        >>> from torchcaps.data.worlds.boats.scenes import scene
        >>> draw([scene("crowded", seed=3)]).shape
        torch.Size([1, 1, 48, 48])
    """
    if size < 1:
        raise ValueError(f"size must be at least 1 pixel, got {size}")
    if not scenes:
        return torch.zeros(0, 1, size, size, dtype=torch.uint8)
    step = max(1, _PIXELS_AT_A_TIME // size**2)
    drawn = [_draw(scenes[start : start + step], size) for start in range(0, len(scenes), step)]
    return torch.from_numpy(np.concatenate(drawn))


def _draw(scenes: Sequence[Scene], size: int) -> np.ndarray:
    canvas = np.zeros((len(scenes), size, size), dtype=np.float32)
    types = [scene.part_type.tolist() for scene in scenes]
    poses = [scene.part_pose.numpy() for scene in scenes]
    paints = [scene.brightness.numpy() for scene in scenes]
    for layer in range(max(len(each) for each in types)):
        for kind in range(len(PARTS)):
            chosen = [number for number, each in enumerate(types) if each[layer : layer + 1] == [kind]]
            if chosen:
                pose = np.stack([poses[number][layer] for number in chosen])
                paint = np.array([paints[number][layer] for number in chosen], dtype=np.float32)
                canvas[chosen] = _paint(canvas[chosen], kind, pose, paint[:, None, None])
    return np.rint(canvas * 255).astype(np.uint8)[:, None]


def _paint(canvas: np.ndarray, kind: int, pose: np.ndarray, paint: np.ndarray) -> np.ndarray:
    """Draw one part of type `kind` on each canvas float32 `[n, size, size]`."""
    size = canvas.shape[-1]
    middle = (np.arange(size) + 0.5) / size * 2 - 1
    to_part = np.linalg.inv(pose)
    pixels_per_unit = np.hypot(pose[:, 0, 0], pose[:, 1, 0]) * (size / 2)

    def beyond(line: tuple[float, float, float]) -> np.ndarray:
        """Distance in pixels of each pixel beyond the line a·x + b·y = c in the part's coordinates."""
        a, b, c = line
        per_x, per_y, constant = ((a * to_part[:, 0] + b * to_part[:, 1]) * pixels_per_unit[:, None]).T
        constant = constant - c * pixels_per_unit
        along_columns = (per_x[:, None] * middle + constant[:, None]).astype(np.float32)
        along_rows = (per_y[:, None] * -middle).astype(np.float32)  # y points up
        return along_columns[:, None, :] + along_rows[:, :, None]

    def cover(distance: np.ndarray) -> np.ndarray:
        """Share of a pixel that lies inside an edge, if its center is `distance` beyond the edge."""
        return np.clip(np.float32(0.5) - distance, 0, 1)

    outside, *others = (beyond(line) for line in _edges(kind))
    for other in others:
        np.maximum(outside, other, out=outside)
    color = paint
    if kind == RECTANGLE:
        color = paint * (1 - np.float32(1 - _BAND_SHADE) * cover(beyond((0.0, 1.0, _BAND))))
    return canvas * (1 - cover(outside - np.float32(_GAP))) + color * cover(outside)


def _edges(kind: int) -> list[tuple[float, float, float]]:
    """Lines a·x + b·y = c along the sides of a part, where (a, b) is the outward unit normal."""
    corners = CORNERS[kind]
    lines = []
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1]):
        length = math.hypot(x1 - x0, y1 - y0)
        a, b = (y1 - y0) / length, (x0 - x1) / length
        lines.append((a, b, a * x0 + b * y0))
    return lines

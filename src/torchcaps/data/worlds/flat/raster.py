"""Drawing: signed distances of each part, within its window only, for all images of a batch at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from torchcaps.data.worlds.flat.world import Shape

GAP = 0.7  # dark pixels around each part, which separate parts that touch or overlap
_MARGIN = 4.0  # pixels around a shape: at sharp corners, the dark gap reaches farther than its width
_STEP = 8  # windows have sides of so many pixels or a multiple of it, so that many are drawn together
_WAVES = 2.5  # periods of a texture along one unit of a part


@dataclass(frozen=True)
class Stamps:
    """L layers of shapes for N images; later layers are drawn over earlier ones.

    Attributes:
        type: int64 `[N, L]`, index into a list of shapes.
        present: bool `[N, L]`.
        pose: float64 `[N, L, 4]`.
        form: float64 `[N, L, F]`.
        brightness: float64 `[N, L]`.
        texture: float64 `[N, L, 3]`: direction (radians), phase and strength of the stripes on a shape.
    """

    type: np.ndarray
    present: np.ndarray
    pose: np.ndarray
    form: np.ndarray
    brightness: np.ndarray
    texture: np.ndarray


@dataclass(frozen=True)
class _Window:
    """The pixels around one layer's shapes of one type, in the images `image`.

    Attributes:
        image: int64 `[n]`.
        row: first row of each window `[n]`.
        column: first column of each window `[n]`.
        side: pixels along each side.
        inside: share of each pixel that the shape covers, float32 `[n, side, side]`.
        rim: the same for the shape and the dark gap around it.
        color: brightness where the shape is.
    """

    image: np.ndarray
    row: np.ndarray
    column: np.ndarray
    side: int
    inside: np.ndarray
    rim: np.ndarray
    color: np.ndarray

    def of(self, canvas: np.ndarray) -> np.ndarray:
        """Copy these windows out of `[N, size, size]`."""
        return self._views(canvas)[self.image, self.row, self.column]

    def put(self, canvas: np.ndarray, values: np.ndarray) -> None:
        """Write these windows into `[N, size, size]`."""
        self._views(canvas)[self.image, self.row, self.column] = values

    def _views(self, canvas: np.ndarray) -> np.ndarray:
        return sliding_window_view(canvas, (self.side, self.side), axis=(1, 2), writeable=True)


def paint(canvas: np.ndarray, shapes: Sequence[Shape], stamps: Stamps) -> None:
    """Draw all layers on canvases float32 `[N, size, size]`, in place.

    Args:
        canvas: brightness 0..1.
        shapes: what `stamps.type` refers to.
        stamps: what to draw.
    """
    for layer in range(stamps.type.shape[1]):
        for window in _windows(shapes, stamps, layer, canvas.shape[-1]):
            window.put(canvas, window.of(canvas) * (1 - window.rim) + window.color * window.inside)


def masks(shapes: Sequence[Shape], stamps: Stamps, size: int, *, visible: bool) -> np.ndarray:
    """The share of each pixel that each layer's shape covers.

    Args:
        shapes: what `stamps.type` refers to.
        stamps: the layers.
        size: pixels along each side.
        visible: whether to leave out what later layers hide.

    Returns:
        float32 `[N, L, size, size]`.
    """
    count, layers = stamps.type.shape
    result = np.zeros((layers, count, size, size), np.float32)
    for layer in range(layers):
        for window in _windows(shapes, stamps, layer, size):
            window.put(result[layer], window.inside)
            for below in range(layer if visible else 0):
                window.put(result[below], window.of(result[below]) * (1 - window.rim))
    return np.moveaxis(result, 0, 1)


def stripes(phase: np.ndarray) -> np.ndarray:
    """A triangle wave of period 1 between 0 and 1; exact in any batch, unlike a sine."""
    return np.abs(phase - np.floor(phase) - np.float32(0.5)) * 2


def _windows(shapes: Sequence[Shape], stamps: Stamps, layer: int, size: int) -> Iterator[_Window]:
    pose = stamps.pose[:, layer]
    radius = np.array([shape.radius for shape in shapes])[stamps.type[:, layer]]
    pixels_per_unit = np.sqrt(pose[:, 0] * pose[:, 0] + pose[:, 1] * pose[:, 1]) * (size / 2)
    reach = radius * pixels_per_unit + _MARGIN
    side = np.minimum(size, np.ceil((2 * reach + 1) / _STEP).astype(np.int64) * _STEP)
    # One key for each pair of a type and a side.
    key = np.where(stamps.present[:, layer], stamps.type[:, layer] * (size + 1) + side, -1)
    for value in np.unique(key[key >= 0]).tolist():
        image = np.flatnonzero(key == value)
        kind, width = divmod(value, size + 1)
        first = [
            np.clip(np.floor(middle - reach[image]).astype(np.int64), 0, size - width)
            for middle in ((1 + pose[image, 2]) * (size / 2), (1 - pose[image, 3]) * (size / 2))
        ]
        yield _window(shapes[kind], stamps, layer, image, first[1], first[0], width, size)


def _window(
    shape: Shape,
    stamps: Stamps,
    layer: int,
    image: np.ndarray,
    row: np.ndarray,
    column: np.ndarray,
    side: int,
    size: int,
) -> _Window:
    a, b, x, y = stamps.pose[image, layer].T
    square = a * a + b * b
    right = (2 * (column[:, None] + np.arange(side)) + 1) / size - 1 - x[:, None]
    up = 1 - (2 * (row[:, None] + np.arange(side)) + 1) / size - y[:, None]
    a, b = (a / square)[:, None], (b / square)[:, None]
    # Rounded to float32 before the sum over rows and columns: a pixel gets the same bits in any window.
    u = (a * right).astype(np.float32)[:, None, :] + (b * up).astype(np.float32)[:, :, None]
    v = (-b * right).astype(np.float32)[:, None, :] + (a * up).astype(np.float32)[:, :, None]
    zoom = (np.sqrt(square) * (size / 2)).astype(np.float32)[:, None, None]
    half = np.float32(0.5)

    def cover(distance: np.ndarray) -> np.ndarray:
        return np.clip(half - distance * zoom, 0, 1)

    form = [number[:, None, None] for number in stamps.form[image, layer].T.astype(np.float32)]
    beyond = half - shape.distance(u, v, form) * zoom
    color = stamps.brightness[image, layer].astype(np.float32)[:, None, None]
    if shape.shade is not None:
        color = color * shape.shade(u, v, form, cover)
    direction, phase, strength = stamps.texture[image, layer].T
    if strength.any():
        across, along = _WAVES * np.cos(direction), _WAVES * np.sin(direction)
        across, along, phase, strength = (
            number.astype(np.float32)[:, None, None] for number in (across, along, phase, strength)
        )
        color = color * (1 - strength * stripes(across * u + along * v + phase))
    inside = np.clip(beyond, 0, 1)
    rim = np.clip(beyond + np.float32(GAP), 0, 1)
    return _Window(image, row, column, side, inside, rim, color)

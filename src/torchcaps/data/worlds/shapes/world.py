"""The world of shapes: three parts, eight wholes, six groups."""

from __future__ import annotations

import numpy as np

from torchcaps.data.worlds.flat.backdrop import ellipse_distance, ellipse_points
from torchcaps.data.worlds.flat.world import Cover, Form, Shape, Slot, Whole, World

SHADE = np.float32(0.42)  # brightness of a mark, relative to its part
ELLIPSE_HEIGHT = 0.62


def _rectangle(u: np.ndarray, v: np.ndarray, form: Form) -> np.ndarray:
    return np.maximum(np.abs(u) - np.float32(1), np.abs(v) - np.float32(0.5))


def _triangle(u: np.ndarray, v: np.ndarray, form: Form) -> np.ndarray:
    side = np.float32(1.5 / np.hypot(1.5, 1)) * np.abs(u) + np.float32(1 / np.hypot(1.5, 1)) * (v - 1)
    return np.maximum(np.float32(-0.5) - v, side)


def _ellipse(u: np.ndarray, v: np.ndarray, form: Form) -> np.ndarray:
    return ellipse_distance(u, v, np.float32(1), np.float32(ELLIPSE_HEIGHT))


def _dark(share: np.ndarray) -> np.ndarray:
    return 1 - (1 - SHADE) * share


def _rectangle_shade(u: np.ndarray, v: np.ndarray, form: Form, cover: Cover) -> np.ndarray:
    return _dark(cover(v + np.float32(0.2)))  # the bottom


def _triangle_shade(u: np.ndarray, v: np.ndarray, form: Form, cover: Cover) -> np.ndarray:
    return _dark(cover(np.float32(0.3) - v))  # the tip


def _ellipse_shade(u: np.ndarray, v: np.ndarray, form: Form, cover: Cover) -> np.ndarray:
    return _dark(cover(np.float32(0.4) - u))  # the right end


RECTANGLE = Shape(
    "rectangle",
    np.array([[1.0, 0.5], [-1.0, 0.5], [-1.0, -0.5], [1.0, -0.5]]),
    _rectangle,
    _rectangle_shade,
)
TRIANGLE = Shape("triangle", np.array([[-1.0, -0.5], [1.0, -0.5], [0.0, 1.0]]), _triangle, _triangle_shade)
ELLIPSE = Shape("ellipse", ellipse_points(1.0, ELLIPSE_HEIGHT), _ellipse, _ellipse_shade)

MARKS = {"rectangle": (0.0, -0.35), "triangle": (0.0, 0.5), "ellipse": (0.7, 0.0)}
"""A point inside the dark mark of each part, in its own coordinates."""

WHOLES = (
    # A house and a boat are made of the same two parts: a roof on a wall, a sail beside a mast on a hull.
    Whole("house", (Slot("rectangle", 0, -0.5), Slot("triangle", 0, 0.5))),
    Whole("boat", (Slot("rectangle", 0, -0.5, 180), Slot("triangle", 0.2, 1.0, -90))),
    # So are a fish and an ice cream: a tail behind a body, a scoop on a cone.
    Whole("fish", (Slot("ellipse", 0, 0, 180), Slot("triangle", 1.75, 0, 90, 0.75))),
    Whole("ice cream", (Slot("ellipse", 0, 0.95, 180), Slot("triangle", 0, -0.05, 180, 0.75))),
    Whole(
        "tree",
        (
            Slot("triangle", 0, 1.12, 0, 0.72),
            Slot("triangle", 0, 0, 0, 1.0),
            Slot("rectangle", 0, -0.95, 90, 0.45),
        ),
    ),
    Whole(
        "rocket",
        (
            Slot("rectangle", 0, 0, 90, 1.0),
            Slot("triangle", 0, 1.25, 0, 0.5),
            Slot("ellipse", 0, -1.5, -90, 0.5),
        ),
    ),
    # A truck and a robot are made of the same four parts.
    Whole(
        "truck",
        (
            Slot("rectangle", -0.4, 0, 0, 1.0),
            Slot("rectangle", 0.92, -0.14, 90, 0.36),
            Slot("ellipse", -0.8, -0.75, 0, 0.4),
            Slot("ellipse", 0.6, -0.75, 0, 0.4),
        ),
    ),
    Whole(
        "robot",
        (
            Slot("rectangle", 0, 0, 90, 1.0),
            Slot("rectangle", 0, 1.18, 0, 0.36),
            Slot("ellipse", -0.75, 0.5, 90, 0.4),
            Slot("ellipse", 0.75, 0.5, 90, 0.4),
        ),
    ),
)

GROUPS = (
    # The same two wholes, beside and above each other.
    Whole("harbor", (Slot("house", -0.95, 0), Slot("boat", 0.85, 0))),
    Whole("dock", (Slot("house", 0, 0.85), Slot("boat", 0, -0.85))),
    Whole("street", (Slot("house", -1.0, 0), Slot("truck", 0.95, -0.3))),
    Whole("garage", (Slot("house", 0, 0.75), Slot("truck", 0, -0.75))),
    Whole("garden", (Slot("house", -0.8, 0), Slot("tree", 0.85, 0))),
    Whole("lake", (Slot("boat", 0, 0.75), Slot("fish", 0, -0.75, 0, 0.8))),
)

SHAPES = World("shapes", (RECTANGLE, TRIANGLE, ELLIPSE), WHOLES, GROUPS)
"""Parts, wholes and groups of the data set `shapes`."""

"""The world of faces: two eyes, a nose and a mouth make a face, or something else."""

from __future__ import annotations

import numpy as np

from torchcaps.data.worlds.flat.backdrop import ellipse_distance, ellipse_points
from torchcaps.data.worlds.flat.world import Cover, Form, Shape, Slot, Whole, World

PUPIL = np.float32(0.12)
LID = np.float32(0.55)


def _eye(u: np.ndarray, v: np.ndarray, form: Form) -> np.ndarray:
    return ellipse_distance(u, v, np.float32(1), form[0])


def _eye_shade(u: np.ndarray, v: np.ndarray, form: Form, cover: Cover) -> np.ndarray:
    height, gaze = form
    x, y = u - gaze, v + np.float32(0.1) * height
    pupil = cover(np.sqrt(x * x + y * y) - np.float32(0.36))
    lid = cover(np.float32(0.45) * height - v)  # shows which way up the eye is
    return (1 - (1 - LID) * lid) * (1 - (1 - PUPIL) * pupil)


def _nose(u: np.ndarray, v: np.ndarray, form: Form) -> np.ndarray:
    width = form[0]
    side = (np.float32(1.5) * np.abs(u) + width * (v - 1)) / np.sqrt(np.float32(2.25) + width * width)
    return np.maximum(np.float32(-0.5) - v, side)


def _nose_shade(u: np.ndarray, v: np.ndarray, form: Form, cover: Cover) -> np.ndarray:
    return 1 - np.float32(0.5) * cover(v + np.float32(0.12))


def _mouth(u: np.ndarray, v: np.ndarray, form: Form) -> np.ndarray:
    bend, lips = form[0], form[1]
    square = u * u
    # The middle line is a parabola whose mean height over the mouth is 0.
    middle = bend * (square - np.float32(0.2))
    slope = 2 * (bend + lips) * u
    lip = (np.abs(v - middle) - lips * (1 - square)) / np.sqrt(1 + slope * slope)
    return np.maximum(lip, np.abs(u) - 1)  # the corners of the mouth


def _mouth_shade(u: np.ndarray, v: np.ndarray, form: Form, cover: Cover) -> np.ndarray:
    upper = cover(form[0] * (u * u - np.float32(0.2)) - v)
    return 1 - np.float32(0.5) * upper


EYE = Shape("eye", ellipse_points(1.0, 0.82), _eye, _eye_shade, form=((0.55, 0.82), (-0.3, 0.3)))
NOSE = Shape(
    "nose",
    np.array([[-0.75, -0.5], [0.75, -0.5], [0.0, 1.0]]),
    _nose,
    _nose_shade,
    form=((0.5, 0.75),),
)
MOUTH = Shape(
    "mouth",
    np.array([[-1.0, 0.4], [-0.7, -0.2], [0.0, -0.45], [0.7, -0.2], [1.0, 0.4]]),
    _mouth,
    _mouth_shade,
    form=((0.2, 0.5), (0.24, 0.34)),
)

WHOLES = (
    Whole(
        "face",
        (
            Slot("eye", -0.46, 0.36, 0, 0.36),
            Slot("eye", 0.46, 0.36, 0, 0.36),
            Slot("nose", 0, -0.1, 0, 0.36),
            Slot("mouth", 0, -0.6, 0, 0.55),
        ),
    ),
    # Two wheels, a saddle and a handlebar.
    Whole(
        "bicycle",
        (
            Slot("eye", -0.5, -0.4, 0, 0.36),
            Slot("eye", 0.5, -0.4, 0, 0.36),
            Slot("nose", -0.36, 0.3, 180, 0.36),
            Slot("mouth", 0.4, 0.4, -60, 0.55),
        ),
    ),
    # A sail on a hull, and two fish below.
    Whole(
        "boat",
        (
            Slot("eye", -0.45, -0.62, 0, 0.36),
            Slot("eye", 0.45, -0.62, 0, 0.36),
            Slot("nose", 0, 0.4, 0, 0.36),
            Slot("mouth", 0, -0.06, 0, 0.55),
        ),
    ),
    # A hat on two balls, and snow on the ground.
    Whole(
        "snowman",
        (
            Slot("eye", 0, 0.12, 0, 0.36),
            Slot("eye", 0, -0.48, 0, 0.36),
            Slot("nose", 0, 0.64, 0, 0.36),
            Slot("mouth", 0, -0.94, 180, 0.55),
        ),
    ),
)

FACES = World(
    "faces",
    (EYE, NOSE, MOUTH),
    WHOLES,
    vary=(0.04, 6.0, 0.1),
    gap=(0.03, 0.15),
    radius=0.82,
    tolerance=0.35,
)
"""Parts and wholes of the data set `faces`."""

"""Where the parts of each scene are: poses 4×4 in the camera's frame.

Products of matrices are written as sums of products: these round the same way in a batch of any size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from torchcaps.data.worlds.flat.numbers import SceneNumbers
from torchcaps.data.worlds.solids.options import SolidOptions
from torchcaps.data.worlds.solids.world import PARTS, WHOLES, part_scale, whole_places
from torchcaps.data.worlds.toys.solid import rotation

# Loose parts keep this distance from each other, relative to the sum of their scales, if they find a place.
_APART = 0.65
_TRIES = 8
# Centers of loose parts lie in a ball of this radius.
_BALL = 0.75


# The rotations that put each of the six sides of a part below.
_SIDES = np.stack(
    [rotation(roll, pitch) for roll, pitch in ((0, 0), (90, 0), (180, 0), (270, 0), (0, 90), (0, -90))]
)


class SolidLayout(NamedTuple):
    """N scenes of P parts, -1 being the kind of none.

    Attributes:
        kind: int64 `[N, P]`.
        pose: float64 `[N, P, 4, 4]`.
        whole: int64 `[N]`, -1 for none.
        whole_pose: float64 `[N, 4, 4]`.
        view: azimuth, elevation and turn in degrees, float64 `[N, 3]`; 0 for loose parts.
    """

    kind: np.ndarray
    pose: np.ndarray
    whole: np.ndarray
    whole_pose: np.ndarray
    view: np.ndarray


def multiply(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Products of matrices `[..., n, n]`.

    >>> multiply(2 * np.eye(2), np.ones((3, 2, 2))).shape
    (3, 2, 2)
    """
    return (outer[..., :, :, None] * inner[..., None, :, :]).sum(-2)


def compose_wholes(numbers: SceneNumbers, options: SolidOptions) -> SolidLayout:
    """Scenes with one whole each."""
    count = len(numbers)
    whole = numbers.integers(len(WHOLES))
    view = np.stack(
        [numbers.uniform(*each) for each in (options.azimuth, options.elevation, options.turn)], 1
    )
    pose = np.tile(np.eye(4), (count, 1, 1))
    pose[:, :3, :3] = numbers.uniform(*options.scale)[:, None, None] * view_rotation(view)
    pose[:, :3, 3] = options.offset * _in_ball(numbers)
    kind, places = whole_places()
    parts = multiply(pose[:, None], places[whole])
    return SolidLayout(kind[whole], parts, whole, pose, view)


def compose_parts(numbers: SceneNumbers, options: SolidOptions) -> SolidLayout:
    """Scenes of loose parts: each lies on one of its six sides, turned about the vertical by any angle.

    The camera sees them from its range of elevations; so every part is seen from all azimuths. A part is
    moved a few times if it is too near to an earlier one, and stays where it is then.
    """
    count, parts = len(numbers), options.parts
    kind = numbers.integers(len(PARTS), parts)
    pose = np.tile(np.eye(4), (count, parts, 1, 1))
    scale = part_scale() * numbers.uniform(*options.scale)
    elevation, turn = numbers.uniform(*options.elevation), numbers.uniform(*options.turn)
    for part in range(parts):
        view = np.stack([numbers.uniform(-180, 180), elevation, turn], 1)
        side = _SIDES[numbers.integers(len(_SIDES))]
        pose[:, part, :3, :3] = scale[:, None, None] * multiply(view_rotation(view), side)
        place = _BALL * _in_ball(numbers)
        for _ in range(_TRIES if part else 0):
            distance = np.sqrt(((pose[:, :part, :3, 3] - place[:, None]) ** 2).sum(-1)).min(1)
            place = np.where((distance < 2 * _APART * scale)[:, None], _BALL * _in_ball(numbers), place)
        pose[:, part, :3, 3] = place
    nothing = np.tile(np.eye(4), (count, 1, 1))
    return SolidLayout(kind, pose, np.full(count, -1), nothing, np.zeros((count, 3)))


KINDS = {"parts": compose_parts, "single": compose_wholes}
"""What a scene holds, by its kind."""


def view_rotation(view: np.ndarray) -> np.ndarray:
    """How a whole stands before a camera at (azimuth, elevation, turn) `[N, 3]` in degrees: `[N, 3, 3]`.

    The camera's frame has x towards the camera, y to the right and z up.

    >>> view_rotation(np.array([[90.0, 0.0, 0.0]])).round(6)[0, :, 1]  # its left, seen from the left
    array([1., 0., 0.])
    """
    azimuth, elevation, turn = np.radians(view).T
    around_z = _about(2, -azimuth)
    around_y = _about(1, elevation)
    return multiply(_about(0, turn), multiply(around_y, around_z))


def _about(axis: int, angle: np.ndarray) -> np.ndarray:
    one, other = (axis + 1) % 3, (axis + 2) % 3
    result = np.zeros((len(angle), 3, 3))
    result[:, axis, axis] = 1
    result[:, one, one] = result[:, other, other] = np.cos(angle)
    result[:, other, one], result[:, one, other] = np.sin(angle), -np.sin(angle)
    return result


def _in_ball(numbers: SceneNumbers) -> np.ndarray:
    """Points in the unit ball `[N, 3]`."""
    height, angle = numbers.uniform(-1, 1), numbers.uniform(0, 2 * np.pi)
    flat, radius = np.sqrt(1 - height * height), np.cbrt(numbers.uniform(0, 1))
    return np.stack([radius * flat * np.cos(angle), radius * flat * np.sin(angle), radius * height], 1)

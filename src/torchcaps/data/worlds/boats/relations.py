r"""Parts, wholes and their relative poses.

A pose is a similarity of the plane, the 3×3 matrix

.. math::
    \begin{pmatrix} s\cos\theta & -s\sin\theta & x \\ s\sin\theta & s\cos\theta & y \\ 0 & 0 & 1 \end{pmatrix}

that maps a part's own coordinates to those of the image, which run from -1 to 1 with y up. The pose of a part
of type p inside a whole of type w is fixed, so that a part's pose determines that of its whole:
pose_whole = pose_part @ relation[w, p]. That product is the vote of a capsule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torchcaps.data.worlds.boats.similarity import Similarity

PARTS = ("rectangle", "triangle")
WHOLES = ("house", "boat")
RECTANGLE, TRIANGLE = range(2)
HOUSE, BOAT = range(2)

CORNERS = (
    ((-1.0, -0.5), (1.0, -0.5), (1.0, 0.5), (-1.0, 0.5)),
    ((-1.0, -0.5), (1.0, -0.5), (0.0, 0.5)),
)
"""Corners of each part type in its own coordinates, counter-clockwise."""

PLACEMENTS = (
    # A house: the triangle lies with its long side on the rectangle, a roof on a wall.
    (Similarity.of(0, -0.5, 0, 1), Similarity.of(0, 0.5, 0, 1)),
    # A boat: the rectangle is upside down, and the triangle stands on one corner, a sail along its mast.
    (Similarity.of(0, -1.0, math.pi, 1), Similarity.of(0.2, 0.5, -math.pi / 2, 1)),
)
"""`PLACEMENTS[w][p]`: the pose of part type p in the coordinates of whole type w.

Sizes are the same in both, so that no part alone reveals whether it belongs to a house or a boat.
"""


def pose_matrix(x: float, y: float, angle: float, scale: float) -> Tensor:
    """The pose float64 `[3, 3]` that scales, rotates (radians, counter-clockwise) and moves.

    >>> pose_matrix(3, 4, 0, 2) @ torch.tensor([1.0, 0, 1], dtype=torch.float64)
    tensor([5., 4., 1.], dtype=torch.float64)
    """
    return matrices([Similarity.of(x, y, angle, scale)])[0]


def matrices(poses: Sequence[Similarity]) -> Tensor:
    """Poses as float64 `[K, 3, 3]`."""
    return torch.tensor([pose.rows() for pose in poses], dtype=torch.float64).reshape(-1, 3, 3)


def pose_numbers(pose: Tensor) -> Tensor:
    """x, y, angle and scale `[..., 4]` of poses `[..., 3, 3]`; the angle is in (-π, π].

    >>> pose_numbers(pose_matrix(3, 4, 1, 2)).tolist()
    [3.0, 4.0, 1.0, 2.0]
    """
    cos, sin = pose[..., 0, 0], pose[..., 1, 0]
    numbers = (pose[..., 0, 2], pose[..., 1, 2], torch.atan2(sin, cos), torch.hypot(cos, sin))
    return torch.stack(numbers, dim=-1)


PLACE = torch.stack([matrices(whole) for whole in PLACEMENTS])
"""`PLACEMENTS` as matrices, float64 `[w, p, 3, 3]`: pose_part = pose_whole @ PLACE[whole type, part type]."""

RELATION = torch.stack([matrices([part.inverse() for part in whole]) for whole in PLACEMENTS])
"""pose_whole = pose_part @ RELATION[whole type, part type], float64 `[w, p, 3, 3]`."""


def votes(part_type: Tensor, part_pose: Tensor) -> Tensor:
    """The pose that each part implies for each type of whole.

    Args:
        part_type: int64 `[..., P]`.
        part_pose: `[..., P, 3, 3]`.

    Returns:
        `[..., P, w, 3, 3]`, one vote per part and type of whole.

    Example:
        >>> house = pose_matrix(0.1, 0.2, 0.3, 0.4)
        >>> parts = torch.tensor([RECTANGLE, TRIANGLE])
        >>> cast = votes(parts, house @ PLACE[HOUSE])
        >>> torch.allclose(cast[0, HOUSE], house), torch.allclose(cast[0, BOAT], cast[1, BOAT])
        (True, False)
    """
    relation = RELATION.to(part_pose)[:, part_type]
    return part_pose.unsqueeze(-3) @ relation.movedim(0, -3)

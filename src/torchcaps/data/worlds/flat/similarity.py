r"""Similarities of the plane as four numbers (a, b, x, y), in arrays `[..., 4]`.

They stand for the map

.. math::
    p \mapsto \begin{pmatrix} a & -b \\ b & a \end{pmatrix} p + \begin{pmatrix} x \\ y \end{pmatrix},
    \qquad a = s\cos\theta, \quad b = s\sin\theta.

Only single additions, products and quotients are used: these round the same way everywhere, so that a scene
has the same bits in a batch of any size. Fused forms such as matrix products do not promise that.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def similarity(x: object, y: object, angle: object, scale: object) -> np.ndarray:
    """Poses `[..., 4]` that scale, rotate (radians, counter-clockwise), then move; arguments broadcast.

    >>> similarity(3, 4, 0, 2)
    array([2., 0., 3., 4.])
    """
    x, y, angle, scale = np.broadcast_arrays(*(np.asarray(each, np.float64) for each in (x, y, angle, scale)))
    return np.stack([scale * np.cos(angle), scale * np.sin(angle), x, y], axis=-1)


def compose(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """First `inner`, then `outer`, as a product of matrices: `[..., 4]`.

    >>> compose(similarity(1, 0, 0, 2), similarity(0, 5, 0, 3))
    array([ 6.,  0.,  1., 10.])
    """
    a, b, x, y = np.moveaxis(outer, -1, 0)
    c, d, p, q = np.moveaxis(inner, -1, 0)
    return np.stack([a * c - b * d, a * d + b * c, a * p - b * q + x, b * p + a * q + y], axis=-1)


def invert(pose: np.ndarray) -> np.ndarray:
    """The inverse maps `[..., 4]`.

    >>> compose(invert(similarity(1, 2, 0, 4)), similarity(1, 2, 0, 4))
    array([1., 0., 0., 0.])
    """
    a, b, x, y = np.moveaxis(pose, -1, 0)
    square = a * a + b * b
    c, d = a / square, -b / square
    return np.stack([c, d, d * y - c * x, -d * x - c * y], axis=-1)


def apply(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Map points `[..., 2]`.

    >>> apply(similarity(1, 0, 0, 2), np.array([3.0, 4.0]))
    array([7., 8.])
    """
    a, b, x, y = np.moveaxis(pose, -1, 0)
    p, q = np.moveaxis(points, -1, 0)
    return np.stack([a * p - b * q + x, b * p + a * q + y], axis=-1)


def scale_of(pose: np.ndarray) -> np.ndarray:
    """The scale factors `[...]`."""
    return np.sqrt(pose[..., 0] * pose[..., 0] + pose[..., 1] * pose[..., 1])


def pose_matrices(pose: Tensor) -> Tensor:
    """Poses (a, b, x, y) `[..., 4]` as matrices `[..., 3, 3]`.

    >>> pose_matrices(torch.tensor([2.0, 0, 3, 4])) @ torch.tensor([1.0, 1, 1])
    tensor([5., 6., 1.])
    """
    a, b, x, y = pose.unbind(-1)
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    return torch.stack([a, -b, x, b, a, y, zero, zero, one], dim=-1).unflatten(-1, (3, 3))


def pose_numbers(pose: Tensor) -> Tensor:
    """Poses (a, b, x, y) `[..., 4]` as x, y, angle and scale `[..., 4]`; the angle is in (-π, π].

    >>> pose_numbers(torch.tensor([0.0, 2, 3, 4]))
    tensor([3.0000, 4.0000, 1.5708, 2.0000])
    """
    a, b, x, y = pose.unbind(-1)
    return torch.stack([x, y, torch.atan2(b, a), torch.hypot(a, b)], dim=-1)

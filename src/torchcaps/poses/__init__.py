r"""Pose spaces: how the pose of a child becomes a vote for the pose of a parent.

A capsule layer has three independent parts: **who votes** for whom (`torchcaps.votes`), **how a pose becomes
a vote** (a pose space) and **which votes agree** (`torchcaps.routing`). Every combination works, except that
rotations cannot be added: quaternion poses need a routing that works by distances (`Routing.supports`).

==============  ====================  =======================  ===========================================
space           vote                  weight of a pair         pose
==============  ====================  =======================  ===========================================
`"vector"`      :math:`u W`           `[D_in, D_out]`          a vector of any size
`"matrix"`      :math:`M W`           `[P, P]`                 a P×P matrix, flattened row by row: D = P·P
`"similarity"`  :math:`M W`           `[4]`                    rotation, scale, shift of the plane: D = 4
`"quaternion"`  :math:`q w, f W`      `[4 + F_in·F_out]`       rotation in space and F features: D = 4 + F
==============  ====================  =======================  ===========================================
"""

from __future__ import annotations

from torchcaps._registry import Registry
from torchcaps.poses.base import PoseSpace
from torchcaps.poses.matrix import MatrixPose
from torchcaps.poses.quaternion import QuaternionPose
from torchcaps.poses.similarity import SimilarityPose
from torchcaps.poses.vector import VectorPose

POSE_SPACES: Registry[type[PoseSpace]] = Registry("pose space", PoseSpace)
register_pose_space = POSE_SPACES.register
"""Decorator: `@register_pose_space("mine")` on a subclass of `PoseSpace` makes it known by this name."""
register_pose_space("vector")(VectorPose)
register_pose_space("matrix")(MatrixPose)
register_pose_space("similarity")(SimilarityPose)
register_pose_space("quaternion")(QuaternionPose)


def list_pose_spaces() -> list[str]:
    """Names that every layer takes as `pose`.

    >>> list_pose_spaces()
    ['matrix', 'quaternion', 'similarity', 'vector']
    """
    return POSE_SPACES.names()


def create_pose_space(pose: str | PoseSpace, in_dim: int | None, out_dim: int | None) -> PoseSpace:
    """A pose space by name, or the given one if it has these sizes.

    Args:
        pose: one of `list_pose_spaces()`, or a `PoseSpace`.
        in_dim: size of a child's pose; `None` for the space's own default.
        out_dim: size of a parent's pose; `None` for the space's own default.

    Example:
        >>> create_pose_space("matrix", 16, 16).weight_shape
        (4, 4)
        >>> create_pose_space("matrix", 16, 9)
        Traceback (most recent call last):
        ValueError: matrix poses need in_dim = out_dim = P·P, got in_dim=16, out_dim=9
    """
    if isinstance(pose, PoseSpace):
        for name, wanted, has in (("in_dim", in_dim, pose.in_dim), ("out_dim", out_dim, pose.out_dim)):
            if wanted is not None and wanted != has:
                raise ValueError(f"{name}={wanted}, but the pose space given as `pose` has {name}={has}")
        return pose
    if not isinstance(pose, str):
        raise ValueError(f"pose must be a name or a PoseSpace, got {type(pose).__name__}")
    kind = POSE_SPACES[pose]
    in_dim = kind.default_dim if in_dim is None else in_dim
    return kind(in_dim, in_dim if out_dim is None else out_dim)


__all__ = [
    "MatrixPose",
    "PoseSpace",
    "QuaternionPose",
    "SimilarityPose",
    "VectorPose",
    "create_pose_space",
    "list_pose_spaces",
    "register_pose_space",
]

"""What a pose says: numbers with names, and words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from torchcaps.poses import PoseSpace
from torchcaps.poses.quaternion import QuaternionPose
from torchcaps.poses.similarity import SimilarityPose

if TYPE_CHECKING:
    from torchcaps.parsing.tree import Node

# Numbers of a pose that has no words.
_SHOWN = 4


def type_name(names: Sequence[str], number: int, kind: str) -> str:
    """The name of a type, or its number.

    >>> type_name(("house", "boat"), 1, "class"), type_name((), 1, "class")
    ('boat', 'class 1')
    """
    return names[number] if number < len(names) else f"{kind} {number}"


def read_pose(space: PoseSpace, pose: Sequence[float]) -> dict[str, float]:
    """What a pose says in its own units, by name; empty if its space cannot say it.

    >>> read_pose(SimilarityPose(), [0.0, 2.0, 0.5, -0.5])
    {'x': 0.5, 'y': -0.5, 'angle': 90.0, 'scale': 2.0}
    """
    if isinstance(space, SimilarityPose):
        a, b, x, y = pose
        return {"x": x, "y": y, "angle": math.degrees(math.atan2(b, a)), "scale": math.hypot(a, b)}
    if isinstance(space, QuaternionPose) and math.hypot(*pose[:4]) > 0:
        real, axis = pose[0], math.hypot(*pose[1:4])
        return {"angle": math.degrees(2 * math.atan2(axis, abs(real)))}
    return {}


def read_image_pose(pose: Sequence[float], height: int, width: int) -> dict[str, float]:
    """What a similarity in the coordinates of an image says, in pixels from the upper left corner.

    The coordinates of the image go from -1 to 1 along its shorter side, with y up.

    >>> read_image_pose([0.5, 0.0, 0.0, 0.5], 64, 128)
    {'x': 64.0, 'y': 16.0, 'angle': 0.0, 'scale': 16.0}
    """
    unit = min(height, width) / 2
    own = read_pose(SimilarityPose(), pose)
    return own | {
        "x": width / 2 + unit * own["x"],
        "y": height / 2 - unit * own["y"],
        "scale": unit * own["scale"],
    }


def pose_words(node: Node) -> str:
    """Place, angle and scale of a node, or where it is on a grid and what it sees.

    Without these, the first numbers of its pose.

    >>> from torchcaps.parsing.tree import Node
    >>> pose = (0.5, 0.0, 0.0, 0.5)
    >>> pose_words(Node("whole", 0, "house", 1.0, pose, read_image_pose(pose, 64, 64), pixels=True))
    'at (32, 16) px, 0°, scale 16 px'
    """
    words = [] if node.position is None else ["row {}, column {}".format(*node.position)]
    value = node.reading
    if "x" in value:
        place = f"({value['x']:.0f}, {value['y']:.0f}) px"
        words.append(f"at {place}" if node.pixels else f"at ({value['x']:.2g}, {value['y']:.2g})")
    if "angle" in value:
        words.append(f"{round(value['angle'])}°")
    if "scale" in value:
        words.append(f"scale {value['scale']:.0f} px" if node.pixels else f"scale {value['scale']:.2g}")
    primary = node.level == "primary"
    if node.box is not None and (primary or not words):
        words.append("{} ({}, {}) to ({}, {}) px".format("sees" if primary else "in", *node.box))
    elif not words and node.pose:
        numbers = " ".join(f"{number:.2f}" for number in node.pose[:_SHOWN])
        words.append(f"pose {numbers}{' …' if len(node.pose) > _SHOWN else ''}")
    return ", ".join(words)

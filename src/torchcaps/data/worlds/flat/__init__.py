"""What the flat worlds `shapes` and `faces` share: poses, composing scenes, drawing, exact truth."""

from torchcaps.data.worlds.flat.options import SceneOptions
from torchcaps.data.worlds.flat.scenes import Scenes, draw_world
from torchcaps.data.worlds.flat.similarity import pose_matrices, pose_numbers
from torchcaps.data.worlds.flat.stream import SceneStream
from torchcaps.data.worlds.flat.world import Shape, Slot, Whole, World

__all__ = [
    "SceneOptions",
    "SceneStream",
    "Scenes",
    "Shape",
    "Slot",
    "Whole",
    "World",
    "draw_world",
    "pose_matrices",
    "pose_numbers",
]

"""Boats and houses: the same two parts, which differ only in how they are placed relative to each other."""

from torchcaps.data.worlds.boats.drawing import draw
from torchcaps.data.worlds.boats.loader import boats
from torchcaps.data.worlds.boats.relations import (
    PARTS,
    PLACE,
    RELATION,
    WHOLES,
    pose_matrix,
    pose_numbers,
    votes,
)
from torchcaps.data.worlds.boats.scenes import Scene, scene

__all__ = [
    "PARTS",
    "PLACE",
    "RELATION",
    "WHOLES",
    "Scene",
    "boats",
    "draw",
    "pose_matrix",
    "pose_numbers",
    "scene",
    "votes",
]

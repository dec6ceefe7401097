"""Shapes: rectangles, triangles and ellipses make wholes, and wholes make groups.

>>> draw_scenes("single", 2).images.shape
torch.Size([2, 1, 64, 64])
"""

from torchcaps.data.worlds.shapes.loader import draw_scenes, shapes
from torchcaps.data.worlds.shapes.world import GROUPS, MARKS, SHAPES, WHOLES

__all__ = ["GROUPS", "MARKS", "SHAPES", "WHOLES", "draw_scenes", "shapes"]

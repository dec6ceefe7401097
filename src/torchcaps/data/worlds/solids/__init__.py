"""Solids: boxes, plates, cylinders, cones and ellipsoids make wholes that stereo cameras see from all sides.

>>> draw_solids("single", 2).images.shape
torch.Size([2, 2, 48, 48])
"""

from torchcaps.data.worlds.solids.loader import solids
from torchcaps.data.worlds.solids.options import SolidOptions
from torchcaps.data.worlds.solids.scenes import SolidScenes, draw_solids
from torchcaps.data.worlds.solids.world import PARTS, WHOLES, Part, SolidWhole

__all__ = [
    "PARTS",
    "WHOLES",
    "Part",
    "SolidOptions",
    "SolidScenes",
    "SolidWhole",
    "draw_solids",
    "solids",
]

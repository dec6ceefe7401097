"""Toys: a world like smallNORB, built of solids and photographed by a ray caster.

>>> picture = render("plane", 2, azimuth=33.3, elevation=45, lighting=0)
>>> picture.shape, picture.dtype
(torch.Size([2, 48, 48]), torch.uint8)
"""

from torchcaps.data.worlds.toys.blueprints import CATEGORIES
from torchcaps.data.worlds.toys.loader import toys
from torchcaps.data.worlds.toys.solid import Solid
from torchcaps.data.worlds.toys.stage import render, solids

__all__ = ["CATEGORIES", "Solid", "render", "solids", "toys"]

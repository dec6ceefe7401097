"""Toys: a data set like smallNORB, made of simple solids and rendered by a ray caster.

>>> image = render("plane", 2, azimuth=33.3, elevation=45, lighting=0)
>>> image.shape, image.dtype
(torch.Size([2, 48, 48]), torch.uint8)
"""

from torchcaps.data.worlds.toys.assembly import solids
from torchcaps.data.worlds.toys.builders import CATEGORIES
from torchcaps.data.worlds.toys.loader import toys
from torchcaps.data.worlds.toys.rendering import render
from torchcaps.data.worlds.toys.solid import Solid

__all__ = ["CATEGORIES", "Solid", "render", "solids", "toys"]

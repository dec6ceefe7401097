"""One function per toy that lists its parts, ten for each category.

Units are free: all toys are scaled to one size when they are assembled.
"""

from torchcaps.data.worlds.toys.builders.animals import ANIMALS
from torchcaps.data.worlds.toys.builders.cars import CARS
from torchcaps.data.worlds.toys.builders.humans import HUMANS
from torchcaps.data.worlds.toys.builders.planes import PLANES
from torchcaps.data.worlds.toys.builders.trucks import TRUCKS

CATEGORIES = ("animal", "human", "plane", "truck", "car")
"""In smallNORB's order."""

BUILDERS = {"animal": ANIMALS, "human": HUMANS, "plane": PLANES, "truck": TRUCKS, "car": CARS}

__all__ = ["BUILDERS", "CATEGORIES"]

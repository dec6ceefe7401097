"""How each of the fifty toys is built. Units are free: all toys are brought to one size on the stage."""

from torchcaps.data.worlds.toys.blueprints.animals import ANIMALS
from torchcaps.data.worlds.toys.blueprints.cars import CARS
from torchcaps.data.worlds.toys.blueprints.humans import HUMANS
from torchcaps.data.worlds.toys.blueprints.planes import PLANES
from torchcaps.data.worlds.toys.blueprints.trucks import TRUCKS

CATEGORIES = ("animal", "human", "plane", "truck", "car")
"""In smallNORB's order."""

BLUEPRINTS = {"animal": ANIMALS, "human": HUMANS, "plane": PLANES, "truck": TRUCKS, "car": CARS}

__all__ = ["BLUEPRINTS", "CATEGORIES"]

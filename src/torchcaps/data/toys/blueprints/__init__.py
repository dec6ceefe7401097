"""How each of the fifty toys is built. Units are free: all toys are brought to one size on the stage."""

from torchcaps.data.toys.blueprints.animals import ANIMALS
from torchcaps.data.toys.blueprints.cars import CARS
from torchcaps.data.toys.blueprints.humans import HUMANS
from torchcaps.data.toys.blueprints.planes import PLANES
from torchcaps.data.toys.blueprints.trucks import TRUCKS

CATEGORIES = ("animal", "human", "plane", "truck", "car")
"""In smallNORB's order."""

BLUEPRINTS = {"animal": ANIMALS, "human": HUMANS, "plane": PLANES, "truck": TRUCKS, "car": CARS}

__all__ = ["BLUEPRINTS", "CATEGORIES"]

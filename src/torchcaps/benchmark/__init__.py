"""How fast it is here: routings by geometry and form, whole networks, and how the cost grows."""

from torchcaps.benchmark.measure import machine
from torchcaps.benchmark.networks import network_rows
from torchcaps.benchmark.routings import routing_rows
from torchcaps.benchmark.scaling import scaling_rows

__all__ = ["machine", "network_rows", "routing_rows", "scaling_rows"]

"""How fast it is here: routings by geometry and form, whole networks, and how the cost grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchcaps.lazy import lazy_names

if TYPE_CHECKING:
    from torchcaps.benchmark.measure import machine
    from torchcaps.benchmark.networks import network_rows
    from torchcaps.benchmark.routings import routing_rows
    from torchcaps.benchmark.scaling import scaling_rows

__all__ = ["machine", "network_rows", "routing_rows", "scaling_rows"]

_HOME = {
    "machine": "measure",
    "network_rows": "networks",
    "routing_rows": "routings",
    "scaling_rows": "scaling",
}
__getattr__, __dir__ = lazy_names(__name__, _HOME)

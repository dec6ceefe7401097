"""Routing is clustering: votes in, parents out. A routing does not know about grids."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from torchcaps._registry import Registry, suggest
from torchcaps.kernels.trust import Comparison, register_check
from torchcaps.routing.base import Routing, RoutingOutput
from torchcaps.routing.dynamic import DynamicRouting
from torchcaps.routing.em import EMRouting
from torchcaps.routing.heinsen import HeinsenRouting
from torchcaps.routing.inverted_attention import InvertedAttentionRouting
from torchcaps.routing.kmeans import KMeansRouting
from torchcaps.routing.self_attention import SelfAttentionRouting
from torchcaps.routing.self_routing import SelfRouting
from torchcaps.routing.sinkhorn import SinkhornRouting
from torchcaps.routing.uniform import UniformRouting
from torchcaps.routing.variational import VariationalRouting

ROUTINGS: Registry[type[Routing]] = Registry("routing", Routing)
register_routing = ROUTINGS.register
"""Decorator: `@register_routing("mine")` on a subclass of `Routing` makes it known by this name."""
register_routing("uniform")(UniformRouting)
register_routing("dynamic")(DynamicRouting)
register_routing("kmeans")(KMeansRouting)
register_routing("em")(EMRouting)
register_routing("self_attention")(SelfAttentionRouting)
register_routing("heinsen")(HeinsenRouting)
register_routing("self_routing")(SelfRouting)
register_routing("inverted_attention")(InvertedAttentionRouting)
register_routing("sinkhorn")(SinkhornRouting)
register_routing("variational")(VariationalRouting)


def _self_check(device: torch.device) -> list[Comparison]:
    from torchcaps.routing.self_check import check

    return check(device)


register_check(_self_check)


def list_routings() -> list[str]:
    """Names that `create_routing` and every layer take.

    >>> list_routings()  # doctest: +NORMALIZE_WHITESPACE
    ['dynamic', 'em', 'heinsen', 'inverted_attention', 'kmeans', 'self_attention', 'self_routing',
     'sinkhorn', 'uniform', 'variational']
    """
    return ROUTINGS.names()


def create_routing(name: str, **options: Any) -> Routing:
    """Make a routing by name.

    Args:
        name: one of `list_routings()`.
        options: of that routing; an unknown one is an error that names the nearest.

    Example:
        >>> create_routing("dynamic", iterations=2)
        DynamicRouting(parents=1, iterations=2)
        >>> create_routing("em", iteration=2)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: routing 'em' has no option 'iteration': did you mean 'iterations'? Known: activation, ...
    """
    kind = ROUTINGS[name]
    known = routing_options(name)
    for option in options:
        if option not in known:
            raise ValueError(f"routing {name!r} has no option {option!r}: {suggest(option, known)}")
    return kind(**options)


def routing_options(name: str) -> list[str]:
    """Names of the options that the routing `name` takes."""
    return list(inspect.signature(ROUTINGS[name]).parameters)


__all__ = [
    "DynamicRouting",
    "EMRouting",
    "HeinsenRouting",
    "InvertedAttentionRouting",
    "KMeansRouting",
    "Routing",
    "RoutingOutput",
    "SelfAttentionRouting",
    "SelfRouting",
    "SinkhornRouting",
    "UniformRouting",
    "VariationalRouting",
    "create_routing",
    "list_routings",
    "register_routing",
    "routing_options",
]

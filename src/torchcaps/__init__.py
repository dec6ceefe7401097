"""torchcaps: capsule networks in PyTorch.

A capsule layer is a clustering step inside a network: children cast votes for the pose of their possible
parents, a routing clusters the votes, and each cluster found is a parent capsule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchcaps.lazy import lazy_names

if TYPE_CHECKING:
    from torchcaps.capsules import Capsules, length, squash
    from torchcaps.layers import (
        ClassCaps,
        ConvCaps,
        Decoder,
        DenseCaps,
        MatrixPrimaryCaps,
        PrimaryCaps,
        SharedCaps,
    )
    from torchcaps.losses import (
        SpreadMargin,
        activation_cross_entropy,
        margin_loss,
        reconstruction_loss,
        spread_loss,
    )
    from torchcaps.models import Output, create_model, list_models, list_pretrained
    from torchcaps.routing import Routed, Routing, create_routing, list_routings

__version__ = "0.1.0"

__all__ = [
    "Capsules",
    "ClassCaps",
    "ConvCaps",
    "Decoder",
    "DenseCaps",
    "MatrixPrimaryCaps",
    "Output",
    "PrimaryCaps",
    "Routed",
    "Routing",
    "SharedCaps",
    "SpreadMargin",
    "activation_cross_entropy",
    "create_model",
    "create_routing",
    "length",
    "list_models",
    "list_pretrained",
    "list_routings",
    "margin_loss",
    "reconstruction_loss",
    "spread_loss",
    "squash",
]

_HOME = {
    "Capsules": "capsules",
    "ClassCaps": "layers",
    "ConvCaps": "layers",
    "Decoder": "layers",
    "DenseCaps": "layers",
    "MatrixPrimaryCaps": "layers",
    "Output": "models",
    "PrimaryCaps": "layers",
    "Routed": "routing",
    "Routing": "routing",
    "SharedCaps": "layers",
    "SpreadMargin": "losses",
    "activation_cross_entropy": "losses",
    "create_model": "models",
    "create_routing": "routing",
    "length": "capsules",
    "list_models": "models",
    "list_pretrained": "models",
    "list_routings": "routing",
    "margin_loss": "losses",
    "reconstruction_loss": "losses",
    "spread_loss": "losses",
    "squash": "capsules",
}
__getattr__, __dir__ = lazy_names(__name__, _HOME)

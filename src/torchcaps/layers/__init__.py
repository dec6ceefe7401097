"""Capsule layers, each usable alone inside any network."""

from torchcaps.layers.base import CapsuleLayer
from torchcaps.layers.concurrent import ConcurrentCaps
from torchcaps.layers.constellation import ConstellationCaps, ParsedWholes, Proposals
from torchcaps.layers.conv import ClassCaps, ConvCaps
from torchcaps.layers.decoder import Decoder
from torchcaps.layers.dense import DenseCaps, SharedCaps
from torchcaps.layers.normalized_primary import NormalizedPrimaryCaps
from torchcaps.layers.primary import MatrixPrimaryCaps, PrimaryCaps

__all__ = [
    "CapsuleLayer",
    "ClassCaps",
    "ConcurrentCaps",
    "ConstellationCaps",
    "ConvCaps",
    "Decoder",
    "DenseCaps",
    "MatrixPrimaryCaps",
    "NormalizedPrimaryCaps",
    "ParsedWholes",
    "PrimaryCaps",
    "Proposals",
    "SharedCaps",
]

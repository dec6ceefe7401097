"""torchcaps: capsule networks in PyTorch.

A capsule layer is a clustering step inside a network: children cast votes for the pose of their possible
parents, a routing clusters the votes, and each cluster found is a parent capsule.
"""

from torchcaps._lazy import lazy_imports

__version__ = "0.2.0.dev0"

__getattr__, __dir__, __all__ = lazy_imports(__name__, __file__)

"""Parse trees: what a capsule network found in an image, and what belongs to what."""

from torchcaps.parsing.network import parse
from torchcaps.parsing.tree import Mask, Names, Node, ParseTree
from torchcaps.parsing.upright import turn_upright

__all__ = ["Mask", "Names", "Node", "ParseTree", "parse", "turn_upright"]

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.models.weights import ModelCard
from torchcaps.parsing.words import pose_words

Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels; right and bottom are outside."""

Rectangle = tuple[float, float, float, float]
"""Left, top, right and bottom, not of whole pixels."""


class Names(NamedTuple):
    """What the types of things are called; a type without a name is called by its number.

    Attributes:
        classes: of the class capsules, or of the wholes of a `PartsCapsNet`.
        parts: kinds of parts of a `PartsCapsNet`.
        groups: types of groups of a `PartsCapsNet`.
    """

    classes: Sequence[str] = ()
    parts: Sequence[str] = ()
    groups: Sequence[str] = ()

    @classmethod
    def of_card(cls, card: ModelCard) -> Names:
        """The names that are kept with trained weights: `classes`, and `kinds` and `groups` in its facts.

        >>> card = ModelCard("parts_capsnet", {}, 1, 1, (64, 64), ("house",), facts={"kinds": ["roof"]})
        >>> Names.of_card(card)
        Names(classes=('house',), parts=('roof',), groups=())
        """
        return cls(card.classes, *(_texts(card.facts.get(key)) for key in ("kinds", "groups")))


@dataclass
class Node:
    """One thing in a parse tree.

    Attributes:
        level: such as `"whole"` and `"part"`, or the name of the capsule layer.
        type: its index among the types of its level.
        name: of this type.
        presence: 0..1, the activation.
        pose: as the network has it.
        reading: what the pose says, by name, as far as its space can say it: `x`, `y` and `scale` (in pixels
            if `pixels`) and `angle` in degrees against the clock.
        pixels: whether `reading` is in pixels of the image, from its upper left corner.
        position: row and column of a capsule on a grid.
        box: where it is in the image: of its mask, or of its receptive field.
        coupling: 0..1, how much of it goes to its parent in the tree; `None` where it has none.
        share: 0..1, its part of all that its parent gets: coupling times presence, divided by the sum over
            all children, those that are not shown included.
        children: the largest share first.
        mask: share 0..1 of each pixel that belongs to it, `[H, W]`; not part of `to_dict`.
    """

    level: str
    type: int
    name: str
    presence: float
    pose: tuple[float, ...] = ()
    reading: dict[str, float] = field(default_factory=dict)
    pixels: bool = False
    position: tuple[int, int] | None = None
    box: Box | None = None
    coupling: float | None = None
    share: float | None = None
    children: list[Node] = field(default_factory=list)
    mask: Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def shown(self) -> float:
        """Share of all that this node gets which comes from the children in the tree."""
        return sum(child.share or 0.0 for child in self.children)

    @property
    def words(self) -> str:
        """Place and pose in words."""
        return pose_words(self)

    def walk(self) -> Iterator[Node]:
        """Iterate over this node and all below it, from the top."""
        yield self
        for child in self.children:
            yield from child.walk()

    def to_dict(self) -> dict[str, Any]:
        """All but the mask, for JSON."""
        table = {key: value for key, value in vars(self).items() if key not in ("mask", "children")}
        for key in ("pose", "position", "box"):
            table[key] = None if table[key] is None else list(table[key])
        return table | {
            "words": self.words,
            "shown": self.shown,
            "children": [child.to_dict() for child in self.children],
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Node:
        """What `to_dict` returned, from JSON."""
        values = {key: value for key, value in table.items() if key not in ("words", "shown", "children")}
        for key in ("pose", "position", "box"):
            values[key] = None if values[key] is None else tuple(values[key])
        return cls(**values, children=[cls.from_dict(child) for child in table["children"]])


class Mask(NamedTuple):
    """Where a thing is in an image.

    Attributes:
        node: the thing.
        mask: share 0..1 of each pixel that belongs to it, `[H, W]`; those of one level add up to at most 1.
        box: around the pixels with at least half of the largest share; `None` if the mask is empty.
    """

    node: Node
    mask: Tensor
    box: Box | None


@dataclass
class ParseTree:
    """What a network found in an image, and what belongs to what; `torchcaps.parse` makes it.

    Attributes:
        size: height and width of the image in pixels.
        roots: the nodes of the highest level, the most present first.
        loose: parts that are present and belong to nothing.
        image: the network's input, `[C, H, W]`; not part of `to_dict`.
        seen: the part of the image that the network's input, and with it every mask, covers: left, top, right
            and bottom in pixels; `None` for all of it. `torchcaps parse` gives places in pixels of the
            picture as it came, which may have been cropped or padded.
    """

    size: tuple[int, int]
    roots: list[Node]
    loose: list[Node] = field(default_factory=list)
    image: Tensor | None = field(default=None, repr=False, compare=False)
    seen: Rectangle | None = None

    def nodes(self, level: str | None = None) -> list[Node]:
        """All nodes from the top, loose ones last; or those of one level."""
        found = [node for root in (*self.roots, *self.loose) for node in root.walk()]
        return [node for node in found if level in (None, node.level)]

    def masks(self) -> list[Mask]:
        """Masks and boxes of the wholes, and of all other nodes that have a mask, in the order of `nodes`."""
        return [Mask(node, node.mask, mask_box(node.mask)) for node in self.nodes() if node.mask is not None]

    def to_dict(self) -> dict[str, Any]:
        """A table for JSON; `from_dict` reads it."""
        return {
            "size": list(self.size),
            "seen": None if self.seen is None else list(self.seen),
            "roots": [node.to_dict() for node in self.roots],
            "loose": [node.to_dict() for node in self.loose],
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> ParseTree:
        """The tree that `to_dict` described, without image and masks."""
        height, width = table["size"]
        roots, loose = ([Node.from_dict(node) for node in table[key]] for key in ("roots", "loose"))
        seen = table.get("seen")
        return cls((height, width), roots, loose, seen=None if seen is None else tuple(seen))

    def draw(self, image: Tensor | None = None) -> Any:
        """A matplotlib figure: what was found, over the image, and the tree beside it.

        Args:
            image: `[C, H, W]` in 0..1 or uint8, to draw on; the same picture in another size will do. By
                default the network's input.
        """
        from torchcaps.parsing.drawing import draw_tree

        return draw_tree(self, image)

    def __str__(self) -> str:
        """Draw the tree with lines of text."""
        height, width = self.size
        lines = [f"image, {width}×{height} px"]
        tops = [(node, "") for node in self.roots] + [(node, "loose ") for node in self.loose]
        for number, (node, prefix) in enumerate(tops):
            _write(node, lines, "", number == len(tops) - 1, prefix)
        if not tops:
            lines.append("└─ nothing was found")
        return "\n".join(lines)


def mask_box(mask: Tensor) -> Box | None:
    """The box around all pixels of a mask `[H, W]` with at least half of its largest value.

    >>> mask_box(torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.9, 0.5]]))
    (1, 1, 3, 2)
    """
    if not mask.numel() or float(mask.max()) <= 0:
        return None
    rows, columns = torch.nonzero(mask >= 0.5 * mask.max(), as_tuple=True)
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def _write(node: Node, lines: list[str], indent: str, last: bool, prefix: str = "") -> None:
    words = [f"{prefix}{node.name}: {node.presence:.2f}", node.words]
    if node.coupling is not None:
        words.append(f"coupling {node.coupling:.2f}")
    lines.append(f"{indent}{'└─' if last else '├─'} " + ", ".join(word for word in words if word))
    indent += "   " if last else "│  "
    for number, child in enumerate(node.children):
        _write(child, lines, indent, number == len(node.children) - 1 and node.shown > 0.995)
    if node.children and node.shown <= 0.995:
        lines.append(f"{indent}└─ others give {100 * (1 - node.shown):.0f} %")


def _texts(values: object) -> tuple[str, ...]:
    return tuple(str(value) for value in values) if isinstance(values, (list, tuple)) else ()

"""Trees in the pixels of the picture that a network's input was made from."""

from __future__ import annotations

import math
from dataclasses import replace

from torchcaps.parsing.tree import Node, ParseTree, Rectangle


def seen_part(picture: tuple[int, int], read: tuple[int, int], pad: bool) -> Rectangle:
    """What of a picture `torchcaps.data.formats.images.read_image` scales to the network's input.

    Args:
        picture: height and width of the picture.
        read: height and width of the input.
        pad: whether the picture was padded to the shape of the input rather than cropped.

    Returns:
        In pixels of the picture; what was padded is outside of it.

    Example:
        >>> seen_part((60, 90), (32, 32), pad=False)
        (15.0, 0.0, 75.0, 60.0)
        >>> seen_part((60, 120), (32, 32), pad=True)
        (0.0, -30.0, 120.0, 90.0)
    """
    height, width = picture
    if pad:
        factor = min(read[1] / width, read[0] / height)
        # As in `padded`: whole pixels, with the smaller half of the rest before the picture.
        inner = [max(1, round(factor * side)) for side in picture]
        corner = [(whole - part) // 2 for whole, part in zip(read, inner)]
        unit_y, unit_x = height / inner[0], width / inner[1]
        left, top = -corner[1] * unit_x + 0.0, -corner[0] * unit_y + 0.0
        return left, top, left + read[1] * unit_x, top + read[0] * unit_y
    unit = min(width / read[1], height / read[0])
    left, top = (width - unit * read[1]) / 2, (height - unit * read[0]) / 2
    return left, top, left + unit * read[1], top + unit * read[0]


def in_picture(tree: ParseTree, picture: tuple[int, int], seen: Rectangle) -> ParseTree:
    """The same tree with places, scales and boxes in pixels of a picture.

    Masks, and the image, stay those of the network's input, which is the part `seen` of the picture. Poses
    stay as the network has them.

    Args:
        tree: in pixels of the network's input.
        picture: height and width of the picture.
        seen: see `seen_part`.
    """
    height, width = tree.size
    left, top, right, bottom = seen
    unit_x, unit_y = (right - left) / width, (bottom - top) / height

    def moved(node: Node) -> Node:
        reading, box = dict(node.reading), node.box
        if node.pixels:
            reading["x"] = left + unit_x * reading["x"]
            reading["y"] = top + unit_y * reading["y"]
            reading["scale"] *= math.sqrt(unit_x * unit_y)
        if box is not None:
            # All pixels that are touched; what was padded is not in the picture.
            x = (left + unit_x * box[0], left + unit_x * box[2])
            y = (top + unit_y * box[1], top + unit_y * box[3])
            (first, last), (upper, lower) = _pixels(x, picture[1]), _pixels(y, picture[0])
            box = (first, upper, last, lower)
        return replace(node, reading=reading, box=box, children=[moved(child) for child in node.children])

    roots, loose = ([moved(node) for node in nodes] for nodes in (tree.roots, tree.loose))
    return ParseTree(picture, roots, loose, tree.image, seen)


def _pixels(ends: tuple[float, float], size: int) -> tuple[int, int]:
    """Whole pixels from the first to behind the last, at least one, inside of a side of `size` pixels."""
    # Rounding errors of a product must not touch one pixel more.
    first = min(max(math.floor(ends[0] + 1e-6), 0), size - 1)
    return first, min(max(math.ceil(ends[1] - 1e-6), first + 1), size)

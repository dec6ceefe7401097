from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torchcaps._checks import check_count, check_number

Range = tuple[float, float]
"""Lowest and highest value."""


@dataclass(frozen=True)
class SceneOptions:
    """What the scenes of a flat world look like.

    Coordinates of the image run from -1 to 1, with y up. A whole of scale 1 has a radius of at most 1, so
    that it just fits into the image; the same holds for a group.

    Attributes:
        size: pixels along each side.
        angle: range of angles in degrees, of wholes, groups or loose parts; (30, 330) leaves out the 60°
            around 0.
        scale: range of scales of wholes or groups; loose parts are as large as they are in such wholes. By
            default a range that suits the kind of scene.
        offset: range of distances from the middle of the image, for kinds with one object in the middle; by
            default a range that suits the kind of scene.
        parts: number of loose parts in scenes of kind `parts`.
        wholes: number of wholes in crowded scenes.
        separation: range of distances between twins, in units of their scale.
        intact: share of scenes of kind `scrambled` that hold a whole after all.
        clutter: number of strokes and dots behind the parts.
        noise: standard deviation of the noise that is added to each pixel, 0..1.
        texture: strength 0..1 of stripes on parts and background.
        outline: whether each whole, or scrambled whole, has an oval around it.
    """

    size: int = 64
    angle: Range = (-180.0, 180.0)
    scale: Range | None = None
    offset: Range | None = None
    parts: int = 3
    wholes: int = 4
    separation: Range = (0.3, 1.6)
    intact: float = 0.5
    clutter: int = 0
    noise: float = 0.0
    texture: float = 0.0
    outline: bool = False

    def __post_init__(self) -> None:
        check_count("size", self.size, 8)
        for name in ("parts", "wholes"):
            check_count(name, getattr(self, name))
        check_count("clutter", self.clutter, 0)
        check_number("noise", self.noise)
        for name in ("intact", "texture"):
            if check_number(name, getattr(self, name)) > 1:
                raise ValueError(f"{name} must be at most 1, got {getattr(self, name)!r}")
        self._set("angle", check_range("angle", self.angle, None))
        self._set("separation", check_range("separation", self.separation))
        for name in ("scale", "offset"):
            if getattr(self, name) is not None:
                self._set(name, check_range(name, getattr(self, name)))
        if self.scale is not None and not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale must lie above 0 and be at most 1, got {self.scale}")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the class is frozen, and a recipe gives lists

    def ranges(self, scale: Range, offset: Range, reach: float) -> Ranges:
        """The ranges of a kind of scene, checked: everything must fit into the image.

        Args:
            scale: the default.
            offset: the default.
            reach: how far a scene of scale 1 extends from its middle.
        """
        scale, offset = self.scale or scale, self.offset or offset
        if scale[1] * reach + offset[1] > 1 + 1e-9:
            raise ValueError(
                f"a scale of {scale[1]:g} with an offset of {offset[1]:g} leaves the image; "
                f"with this offset, scale may be at most {max(0.0, (1 - offset[1]) / reach):.3g}"
            )
        return Ranges(self.angle, scale, offset)


class Ranges(NamedTuple):
    """Ranges of angle (degrees), scale, and distance from the middle of the image."""

    angle: Range
    scale: Range
    offset: Range


def check_range(name: str, value: object, minimum: float | None = 0.0) -> Range:
    """Check that `value` is two numbers in ascending order, at least `minimum` if there is one.

    >>> check_range("angle", [-30, 30], None)
    (-30.0, 30.0)
    >>> check_range("scale", (0.8, 0.5))
    Traceback (most recent call last):
    ValueError: scale must be two ascending numbers (lowest, highest), got (0.8, 0.5)
    """
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        listed = isinstance(value, str) and "," in value
        hint = f"; on the command line, write --set {name}=[{value}]" if listed else ""
        raise ValueError(f"{name} must be two numbers (lowest, highest), got {value!r}{hint}")
    low, high = (check_number(name, each, minimum) for each in value)
    if low > high:
        raise ValueError(f"{name} must be two ascending numbers (lowest, highest), got {value!r}")
    return low, high

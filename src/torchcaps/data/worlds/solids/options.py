from __future__ import annotations

from dataclasses import dataclass

from torchcaps._checks import check_count, check_number
from torchcaps.data.worlds.flat.options import Range, check_range


@dataclass(frozen=True)
class SolidOptions:
    """What the scenes of solids look like.

    Attributes:
        size: pixels along each side.
        azimuth: range of the camera's azimuth in degrees, of scenes with a whole; at 0 it is in front.
        elevation: range of the camera's elevation in degrees.
        turn: range in degrees by which the camera is turned around its line of sight.
        scale: range of scales; a whole of scale 1 just fits into the image.
        offset: largest distance of a whole from the middle of the view.
        light: range of the lamp's azimuth in degrees from the camera's.
        lamp: brightness of the lamp; the light from all sides has 0.75.
        parts: number of loose parts in scenes of kind `parts`.
        noise: standard deviation of the noise that is added to each pixel, 0..1.
    """

    size: int = 48
    azimuth: Range = (-180.0, 180.0)
    elevation: Range = (20.0, 50.0)
    turn: Range = (0.0, 0.0)
    scale: Range = (0.85, 1.0)
    offset: float = 0.05
    light: Range = (-50.0, 50.0)
    lamp: Range = (0.2, 0.3)
    parts: int = 4
    noise: float = 0.0

    def __post_init__(self) -> None:
        check_count("size", self.size, 8)
        check_count("parts", self.parts)
        check_number("noise", self.noise)
        check_number("offset", self.offset)
        for name in ("azimuth", "elevation", "turn", "light"):
            self._set(name, check_range(name, getattr(self, name), None))
        for name in ("scale", "lamp"):
            self._set(name, check_range(name, getattr(self, name)))
        if not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale must lie above 0 and be at most 1, got {self.scale}")
        if not -90 <= self.elevation[0] <= self.elevation[1] <= 90:
            raise ValueError(f"elevation must lie within -90..90 degrees, got {self.elevation}")

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the class is frozen, and a recipe gives lists

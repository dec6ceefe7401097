from __future__ import annotations

import math
from collections.abc import Callable

from torchcaps.data.worlds.toys.solid import Solid, both_sides, box, cone, cylinder, ellipsoid, wheels

_GLASS = 0.5


def _cabin(
    x: float, z: float, half_length: float, half_width: float, height: float, *, shrink: float = 0.68
) -> list[Solid]:
    """Roof and windows: dark glass all around, the front and the back panes leaning towards the roof.

    Args:
        x: middle of the cabin.
        z: its lower edge.
        half_length: at the lower edge.
        half_width: at the lower edge.
        height: up to the roof.
        shrink: length of the roof as a share of the lower edge's.
    """
    roof = half_length * shrink
    slant = (half_length - roof) / 2
    lean = math.degrees(math.atan2(2 * slant, height))
    pane = (0.05, half_width * 0.86, math.hypot(2 * slant, height) / 2)
    return [
        box((x, 0, z + height / 2), (roof + slant * 0.6, half_width * 0.93, height / 2), paint=_GLASS),
        box((x, 0, z + height), (roof * 1.02, half_width * 0.97, height * 0.1)),
        box((x + roof + slant, 0, z + height / 2), pane, pitch=lean, paint=_GLASS),
        box((x - roof - slant, 0, z + height / 2), pane, pitch=-lean, paint=_GLASS),
    ]


def _lamps(x: float, y: float, z: float, radius: float = 0.08) -> list[Solid]:
    return both_sides(cylinder((x - 0.04, y, z), (x + 0.04, y, z), radius))


def _sedan() -> list[Solid]:
    return [
        box((0, 0, 0.42), (1.35, 0.52, 0.17)),
        *_cabin(-0.1, 0.58, 0.75, 0.47, 0.34),
        box((1.36, 0, 0.33), (0.06, 0.53, 0.06), paint=0.7),
        box((-1.36, 0, 0.33), (0.06, 0.53, 0.06), paint=0.7),
        *_lamps(1.36, 0.38, 0.46),
        *wheels((0.85, 0.47), (-0.85, 0.47), radius=0.26, width=0.14),
    ]


def _beetle() -> list[Solid]:
    mudguards = both_sides(
        ellipsoid((0.75, 0.42, 0.4), (0.36, 0.13, 0.24)), ellipsoid((-0.75, 0.42, 0.4), (0.36, 0.13, 0.24))
    )
    return [
        ellipsoid((0, 0, 0.48), (1.25, 0.5, 0.36)),
        ellipsoid((-0.1, 0, 0.72), (0.68, 0.43, 0.45)),
        *both_sides(ellipsoid((-0.08, 0.33, 0.88), (0.4, 0.12, 0.16), paint=_GLASS)),
        ellipsoid((0.44, 0, 0.88), (0.1, 0.3, 0.17), pitch=50, paint=_GLASS),
        *mudguards,
        *wheels((0.75, 0.47), (-0.75, 0.47), radius=0.25, width=0.15),
    ]


def _sports_car() -> list[Solid]:
    return [
        box((-0.25, 0, 0.38), (1.1, 0.54, 0.15)),
        cone((0.3, 0, 0.38), (1.45, 0, 0.3), 0.54, taper=0.8, flat=0.3),
        *_cabin(-0.3, 0.52, 0.68, 0.44, 0.24, shrink=0.5),
        box((-1.3, 0, 0.72), (0.14, 0.52, 0.03)),
        *both_sides(box((-1.28, 0.4, 0.6), (0.06, 0.03, 0.12))),
        *wheels((0.85, 0.5), (-0.9, 0.5), radius=0.27, width=0.18),
    ]


def _hatchback() -> list[Solid]:
    return [
        box((0, 0, 0.46), (1.05, 0.52, 0.2)),
        *_cabin(-0.25, 0.64, 0.78, 0.48, 0.42, shrink=0.82),
        box((1.06, 0, 0.34), (0.06, 0.52, 0.07), paint=0.7),
        *_lamps(1.06, 0.38, 0.52, 0.1),
        *wheels((0.68, 0.47), (-0.68, 0.47), radius=0.27, width=0.14),
    ]


def _estate() -> list[Solid]:
    rails = both_sides(cylinder((-1.1, 0.36, 1.08), (0.2, 0.36, 1.08), 0.035))
    return [
        box((0, 0, 0.44), (1.45, 0.53, 0.19)),
        *_cabin(-0.42, 0.62, 1.0, 0.48, 0.38, shrink=0.84),
        *rails,
        box((1.46, 0, 0.34), (0.06, 0.54, 0.07), paint=0.7),
        *_lamps(1.46, 0.4, 0.5),
        *wheels((0.92, 0.48), (-0.92, 0.48), radius=0.27, width=0.14),
    ]


def _racer() -> list[Solid]:
    return [
        cone((-0.3, 0, 0.32), (1.6, 0, 0.24), 0.3, taper=0.3, flat=0.7),
        box((-0.7, 0, 0.34), (0.75, 0.26, 0.18)),
        *both_sides(box((-0.35, 0.42, 0.28), (0.5, 0.16, 0.12))),
        ellipsoid((-0.05, 0, 0.55), (0.16, 0.15, 0.16), paint=0.6),
        cone((-0.4, 0, 0.5), (-1.1, 0, 0.5), 0.2, taper=0.3),
        box((1.55, 0, 0.18), (0.14, 0.62, 0.03)),
        box((-1.4, 0, 0.72), (0.17, 0.5, 0.03)),
        *both_sides(box((-1.4, 0.48, 0.58), (0.18, 0.03, 0.17))),
        *wheels((0.95, 0.56), radius=0.27, width=0.22),
        *wheels((-1.05, 0.56), radius=0.3, width=0.28),
    ]


def _convertible() -> list[Solid]:
    seats = [box((x, y, 0.66), (0.07, 0.17, 0.18), pitch=12) for x in (-0.2, -0.72) for y in (0.23, -0.23)]
    return [
        box((0.85, 0, 0.46), (0.58, 0.5, 0.17)),
        box((-1.15, 0, 0.46), (0.28, 0.5, 0.17)),
        box((-0.3, 0, 0.36), (0.65, 0.5, 0.08), paint=0.6),
        *both_sides(box((-0.3, 0.47, 0.47), (0.65, 0.04, 0.16))),
        box((0.22, 0, 0.76), (0.03, 0.44, 0.18), pitch=35, paint=_GLASS),
        *seats,
        cylinder((0.02, 0.17, 0.68), (0.06, 0.29, 0.68), 0.09),
        *_lamps(1.42, 0.38, 0.5),
        *wheels((0.88, 0.46), (-0.92, 0.46), radius=0.26, width=0.14),
    ]


def _jeep() -> list[Solid]:
    return [
        box((0, 0, 0.56), (1.05, 0.44, 0.2)),
        box((-0.42, 0, 0.95), (0.6, 0.44, 0.25), paint=0.6),
        box((-0.42, 0, 1.22), (0.62, 0.46, 0.05)),
        box((0.22, 0, 0.95), (0.03, 0.42, 0.22), pitch=10, paint=_GLASS),
        *both_sides(box((0.72, 0.5, 0.66), (0.34, 0.12, 0.04)), box((-0.62, 0.5, 0.66), (0.34, 0.12, 0.04))),
        cylinder((-1.06, 0, 0.8), (-1.2, 0, 0.8), 0.26, paint=0.45),
        *_lamps(1.06, 0.27, 0.62, 0.1),
        *wheels((0.68, 0.46), (-0.66, 0.46), radius=0.34, width=0.2),
    ]


def _minivan() -> list[Solid]:
    return [
        box((-0.05, 0, 0.5), (1.25, 0.52, 0.26)),
        *_cabin(-0.2, 0.74, 1.1, 0.49, 0.42, shrink=0.86),
        cone((0.75, 0, 0.52), (1.4, 0, 0.42), 0.51, taper=0.85, flat=0.42),
        *_lamps(1.36, 0.36, 0.46),
        *wheels((0.82, 0.47), (-0.82, 0.47), radius=0.27, width=0.15),
    ]


def _old_timer() -> list[Solid]:
    mudguards = both_sides(
        ellipsoid((0.82, 0.46, 0.42), (0.42, 0.12, 0.26)), ellipsoid((-0.72, 0.46, 0.42), (0.42, 0.12, 0.26))
    )
    return [
        cylinder((0.15, 0, 0.62), (1.1, 0, 0.6), 0.27),
        box((0.6, 0, 0.45), (0.5, 0.26, 0.18)),
        box((-0.38, 0, 0.66), (0.58, 0.44, 0.32)),
        box((-0.38, 0, 1.05), (0.5, 0.42, 0.2), paint=_GLASS),
        box((-0.38, 0, 1.28), (0.6, 0.46, 0.05)),
        box((0.05, 0, 0.3), (0.85, 0.52, 0.04)),
        *mudguards,
        *both_sides(ellipsoid((1.08, 0.34, 0.72), (0.1, 0.1, 0.1))),
        *wheels((0.85, 0.46), (-0.75, 0.46), radius=0.3, width=0.1),
    ]


CARS: tuple[Callable[[], list[Solid]], ...] = (
    _convertible,
    _sports_car,
    _hatchback,
    _estate,
    _racer,
    _old_timer,
    _jeep,
    _sedan,
    _minivan,
    _beetle,
)

from __future__ import annotations

from collections.abc import Callable

from torchcaps.data.worlds.toys.solid import Solid, both_sides, box, cone, cylinder, ellipsoid, wheels

_GLASS = 0.5


def _cab(
    front: float, *, length: float = 0.62, width: float = 0.46, height: float = 0.85, floor: float = 0.3
) -> list[Solid]:
    """A cab over the engine whose windscreen is at x = `front`."""
    middle = front - length / 2
    return [
        box((middle, 0, floor + height / 2), (length / 2, width, height / 2)),
        box((front - 0.03, 0, floor + height * 0.7), (0.05, width * 0.86, height * 0.2), paint=_GLASS),
        *both_sides(
            box(
                (middle + 0.04, width - 0.02, floor + height * 0.7),
                (length * 0.3, 0.04, height * 0.18),
                paint=_GLASS,
            )
        ),
        box((front + 0.03, 0, floor + 0.08), (0.06, width, 0.07), paint=0.7),
    ]


def _bonnet_cab(front: float, *, bonnet: float = 0.5, width: float = 0.44) -> list[Solid]:
    """A cab behind a bonnet whose grille is at x = `front`."""
    return [
        box((front - bonnet / 2, 0, 0.5), (bonnet / 2, width * 0.72, 0.24)),
        *both_sides(ellipsoid((front - bonnet * 0.55, width * 0.85, 0.38), (0.3, 0.13, 0.14))),
        *_cab(front - bonnet, length=0.52, width=width, height=0.82),
        *both_sides(
            cylinder(
                (front - bonnet - 0.55, width * 0.9, 0.4), (front - bonnet - 0.55, width * 0.9, 1.45), 0.05
            )
        ),
    ]


def _chassis(front: float, back: float, width: float = 0.3) -> Solid:
    return box(((front + back) / 2, 0, 0.3), ((front - back) / 2, width, 0.07), paint=0.6)


def _box_truck() -> list[Solid]:
    return [
        *_cab(1.3),
        _chassis(1.2, -1.3),
        box((-0.32, 0, 1.02), (0.98, 0.55, 0.66)),
        *wheels((0.95, 0.42), (-0.75, 0.42), radius=0.25, width=0.17),
    ]


def _tanker() -> list[Solid]:
    tank = cylinder((-1.5, 0, 0.85), (0.45, 0, 0.85), 0.48)
    ends = [ellipsoid((-1.5, 0, 0.85), (0.16, 0.48, 0.48)), ellipsoid((0.45, 0, 0.85), (0.16, 0.48, 0.48))]
    hatch = cylinder((-0.5, 0, 1.3), (-0.5, 0, 1.42), 0.16)
    return [
        *_cab(1.35, height=0.9),
        _chassis(1.2, -1.6),
        tank,
        *ends,
        hatch,
        *wheels((1.0, 0.42), (-0.75, 0.42), (-1.3, 0.42), radius=0.25, width=0.17),
    ]


def _dumper() -> list[Solid]:
    bed = [
        box((-0.4, 0, 0.85), (0.92, 0.5, 0.06), pitch=14),
        *both_sides(box((-0.42, 0.48, 1.08), (0.92, 0.05, 0.24), pitch=14)),
        box((0.48, 0, 1.32), (0.05, 0.5, 0.26), pitch=14),
        ellipsoid((-0.35, 0, 1.05), (0.7, 0.4, 0.3), pitch=14, paint=0.75),
    ]
    return [
        *_bonnet_cab(1.6),
        _chassis(1.1, -1.3),
        *bed,
        *wheels((1.25, 0.42), (-0.55, 0.42), (-1.05, 0.42), radius=0.28, width=0.2),
    ]


def _pickup() -> list[Solid]:
    roll_bar = [
        *both_sides(cylinder((-0.42, 0.42, 0.75), (-0.42, 0.42, 1.45), 0.05)),
        cylinder((-0.42, -0.46, 1.45), (-0.42, 0.46, 1.45), 0.05),
    ]
    return [
        box((-0.05, 0, 0.58), (1.4, 0.5, 0.12)),
        box((1.02, 0, 0.78), (0.4, 0.48, 0.16)),
        box((0.22, 0, 1.0), (0.46, 0.46, 0.38)),
        box((0.62, 0, 1.12), (0.05, 0.4, 0.22), pitch=25, paint=_GLASS),
        *both_sides(box((0.2, 0.45, 1.14), (0.36, 0.03, 0.16), paint=_GLASS)),
        *both_sides(box((-0.9, 0.46, 0.86), (0.62, 0.05, 0.2))),
        box((-1.5, 0, 0.86), (0.04, 0.5, 0.2)),
        *roll_bar,
        *wheels((0.95, 0.48), (-0.9, 0.48), radius=0.36, width=0.24),
    ]


def _articulated() -> list[Solid]:
    return [
        *_cab(1.85, height=1.1, length=0.6),
        _chassis(1.8, 0.6),
        box((-0.55, 0, 1.1), (1.5, 0.52, 0.66)),
        box((1.55, 0, 1.52), (0.3, 0.4, 0.14), pitch=-20),
        *wheels((1.55, 0.42), (0.75, 0.42), (-1.2, 0.42), (-1.7, 0.42), radius=0.25, width=0.17),
    ]


def _fire_engine() -> list[Solid]:
    ladder = [
        *both_sides(cylinder((-1.55, 0.18, 1.22), (1.3, 0.18, 1.62), 0.05)),
        *(
            box((x, 0, 1.22 + (x + 1.55) * 0.14), (0.04, 0.18, 0.03))
            for x in (-1.3, -0.8, -0.3, 0.2, 0.7, 1.15)
        ),
    ]
    return [
        *_cab(1.5, length=0.8, height=0.8),
        _chassis(1.3, -1.5),
        box((-0.45, 0, 0.72), (1.08, 0.48, 0.4)),
        cylinder((-0.9, 0, 1.1), (-0.9, 0, 1.3), 0.25),
        *ladder,
        *both_sides(cylinder((1.2, 0.2, 1.1), (1.2, 0.2, 1.24), 0.09)),
        *wheels((1.0, 0.42), (-0.85, 0.42), radius=0.27, width=0.17),
    ]


def _log_truck() -> list[Solid]:
    rows = [(0.55, -0.3), (0.55, 0.0), (0.55, 0.3), (0.81, -0.15), (0.81, 0.15), (1.07, 0.0)]
    logs = [cylinder((-1.75, y, z), (0.65, y, z), 0.15, paint=0.85) for z, y in rows]
    stakes = [stake for x in (-1.4, 0.2) for stake in both_sides(box((x, 0.5, 0.75), (0.04, 0.04, 0.42)))]
    return [
        *_bonnet_cab(1.9),
        _chassis(1.4, -1.6),
        *logs,
        *stakes,
        *wheels((1.55, 0.42), (-0.7, 0.42), (-1.2, 0.42), radius=0.25, width=0.17),
    ]


def _mixer() -> list[Solid]:
    drum = [
        cone((-0.25, 0, 0.98), (-1.2, 0, 1.2), 0.58, taper=0.45),
        cone((-0.25, 0, 0.98), (0.45, 0, 0.85), 0.58, taper=0.6),
    ]
    chute = box((-1.4, 0, 0.85), (0.3, 0.12, 0.05), pitch=40)
    return [
        *_cab(1.4, height=0.95),
        _chassis(1.2, -1.4),
        *drum,
        chute,
        *wheels((1.05, 0.42), (-0.5, 0.42), (-1.0, 0.42), radius=0.27, width=0.18),
    ]


def _army_truck() -> list[Solid]:
    canvas = cylinder((-1.35, 0, 0.95), (0.3, 0, 0.95), 0.52, across=(0, 1, 0), flat=0.95)
    return [
        *_bonnet_cab(1.5, bonnet=0.6),
        _chassis(1.2, -1.35),
        box((-0.52, 0, 0.66), (0.83, 0.52, 0.28)),
        canvas,
        *wheels((1.15, 0.45), (-0.45, 0.47), (-1.0, 0.47), radius=0.31, width=0.2),
    ]


def _crane_truck() -> list[Solid]:
    jib = cone((-0.7, 0, 1.0), (1.9, 0, 1.7), 0.16, taper=0.5)
    hook = [cylinder((1.82, 0, 1.05), (1.82, 0, 1.65), 0.03), ellipsoid((1.82, 0, 1.0), (0.1, 0.1, 0.1))]
    return [
        *_cab(1.4, length=0.5, height=0.7),
        _chassis(1.2, -1.4),
        box((-0.3, 0, 0.46), (1.1, 0.46, 0.12)),
        cylinder((-0.6, 0, 0.5), (-0.6, 0, 0.75), 0.38),
        box((-0.8, 0, 0.95), (0.42, 0.34, 0.25)),
        jib,
        *hook,
        *wheels((1.05, 0.42), (-0.4, 0.42), (-1.0, 0.42), radius=0.27, width=0.18),
    ]


TRUCKS: tuple[Callable[[], list[Solid]], ...] = (
    _tanker,
    _dumper,
    _articulated,
    _fire_engine,
    _pickup,
    _army_truck,
    _box_truck,
    _log_truck,
    _mixer,
    _crane_truck,
)

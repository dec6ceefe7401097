from __future__ import annotations

from collections.abc import Callable

from torchcaps.data.worlds.toys.solid import Point, Solid, both_sides, box, cone, cylinder, ellipsoid


def _hull(
    length: float, radius: float, z: float, *, nose: float = 0.22, tail: float = 0.35, tail_rise: float = 0.5
) -> list[Solid]:
    """A fuselage along x from -length/2 to length/2: a barrel, a round nose, a tail that thins and rises.

    Args:
        length: over all.
        radius: of the barrel.
        z: height of its axis.
        nose: share of the length that the nose takes.
        tail: share of the length that the tail takes.
        tail_rise: how far the tail's end lies above the axis, in radii.
    """
    front, back = length * (0.5 - nose), length * (tail - 0.5)
    return [
        cylinder((back, 0, z), (front, 0, z), radius),
        ellipsoid((front, 0, z), (length * nose, radius, radius)),
        cone((back, 0, z), (-length / 2, 0, z + tail_rise * radius), radius, taper=0.3),
    ]


def _wing(
    x: float,
    z: float,
    span: float,
    chord: float,
    *,
    sweep: float = 0.0,
    rise: float = 0.0,
    thick: float = 0.05,
    tip: float = 0.6,
) -> list[Solid]:
    """A pair of wings from the middle of the hull, each a flat cut-off cone `span` long.

    Args:
        x: of the root's middle.
        z: of the root.
        span: of one wing.
        chord: of the root.
        sweep: how far back the tip lies.
        rise: how far up the tip lies.
        thick: half the thickness at the root.
        tip: chord of the tip as a share of the root's.
    """
    return both_sides(
        cone(
            (x, 0, z),
            (x - sweep, span, z + rise),
            chord / 2,
            taper=tip,
            flat=2 * thick / chord,
            across=(1, 0, 0),
        )
    )


def _fin(
    x: float,
    z: float,
    height: float,
    chord: float,
    *,
    sweep: float = 0.25,
    thick: float = 0.04,
    y: float = 0.0,
    lean: float = 0.0,
) -> Solid:
    """A rudder standing at x, y, z."""
    return cone(
        (x, y, z),
        (x - sweep, y + lean, z + height),
        chord / 2,
        taper=0.55,
        flat=2 * thick / chord,
        across=(1, 0, 0),
    )


def _propeller(hub: Point, radius: float) -> list[Solid]:
    x, y, z = hub
    blade = box((x, y, z), (0.025, 0.07, radius), roll=30)
    return [blade, cone((x - 0.06, y, z), (x + 0.12, y, z), 0.09)]


def _airliner() -> list[Solid]:
    engines = both_sides(cylinder((0.05, 0.75, 0.32), (0.55, 0.75, 0.32), 0.15))
    return [
        *_hull(3.4, 0.26, 0.6),
        *_wing(0.15, 0.52, 1.65, 0.85, sweep=0.75, rise=0.15, tip=0.35),
        *engines,
        *_wing(-1.4, 0.75, 0.6, 0.42, sweep=0.3, tip=0.5),
        _fin(-1.35, 0.75, 0.65, 0.55, sweep=0.35),
    ]


def _delta_fighter() -> list[Solid]:
    delta = both_sides(cone((-0.9, 0.62, 0.4), (0.75, 0.0, 0.4), 0.75, flat=0.06, across=(0, 1, 0)))
    return [
        cylinder((-1.15, 0, 0.45), (0.5, 0, 0.45), 0.22),
        cone((0.5, 0, 0.45), (1.6, 0, 0.42), 0.22, taper=0.02),
        *delta,
        ellipsoid((0.45, 0, 0.62), (0.4, 0.13, 0.15), paint=0.6),
        _fin(-0.8, 0.6, 0.6, 0.65, sweep=0.4),
    ]


def _biplane() -> list[Solid]:
    wings = [box((0.35, 0, 0.35), (0.28, 1.25, 0.035)), box((0.45, 0, 1.15), (0.28, 1.35, 0.035))]
    struts = both_sides(*(cylinder((x, 0.95, 0.35), (x + 0.1, 0.95, 1.15), 0.035) for x in (0.2, 0.5)))
    wheels = both_sides(cylinder((0.55, 0.3, 0.1), (0.55, 0.4, 0.1), 0.17, paint=0.5))
    return [
        *_hull(2.1, 0.24, 0.6, nose=0.1, tail=0.6),
        *wings,
        *struts,
        *wheels,
        *_wing(-0.9, 0.68, 0.5, 0.35),
        _fin(-0.9, 0.65, 0.42, 0.38, sweep=0.1),
        *_propeller((1.1, 0, 0.6), 0.5),
    ]


def _jumbo() -> list[Solid]:
    engines = both_sides(
        *(cylinder((x, y, 0.42), (x + 0.45, y, 0.42), 0.14) for x, y in ((0.15, 0.65), (-0.15, 1.15)))
    )
    return [
        *_hull(2.9, 0.38, 0.75, nose=0.2, tail=0.4),
        ellipsoid((0.75, 0, 1.05), (0.55, 0.2, 0.2)),
        *_wing(0.15, 0.62, 1.75, 0.95, sweep=0.55, rise=0.1, thick=0.07, tip=0.35),
        *engines,
        *_wing(-1.2, 0.95, 0.75, 0.5, sweep=0.3),
        _fin(-1.15, 0.9, 0.8, 0.65, sweep=0.4),
    ]


def _prop_trainer() -> list[Solid]:
    gear = both_sides(cylinder((0.35, 0.5, 0.02), (0.35, 0.6, 0.02), 0.16, paint=0.5))
    return [
        *_hull(2.3, 0.25, 0.45, nose=0.16, tail=0.5),
        box((0.35, 0, 0.3), (0.35, 1.45, 0.05)),
        ellipsoid((0.12, 0, 0.68), (0.48, 0.17, 0.2), paint=0.6),
        *_wing(-0.98, 0.55, 0.55, 0.38),
        _fin(-0.95, 0.5, 0.5, 0.45, sweep=0.15),
        *gear,
        *_propeller((1.2, 0, 0.45), 0.45),
    ]


def _bomber() -> list[Solid]:
    engines = [
        part
        for y in (0.6, 1.15)
        for part in both_sides(cone((0.15, y, 0.52), (0.75, y, 0.52), 0.15, taper=0.75))
    ]
    fins = [_fin(-1.45, 0.5, 0.6, 0.45, y=0.7), _fin(-1.45, 0.5, 0.6, 0.45, y=-0.7)]
    return [
        *_hull(3.0, 0.24, 0.5, tail=0.5),
        *_wing(0.25, 0.5, 1.75, 0.75, sweep=0.1, rise=0.1, tip=0.5),
        *engines,
        box((-1.4, 0, 0.58), (0.22, 0.75, 0.035)),
        *fins,
        ellipsoid((0.95, 0, 0.72), (0.25, 0.15, 0.13), paint=0.6),
    ]


def _glider() -> list[Solid]:
    return [
        ellipsoid((0.45, 0, 0.3), (0.62, 0.19, 0.22)),
        cone((0.3, 0, 0.3), (-1.4, 0, 0.42), 0.15, taper=0.3),
        *_wing(0.35, 0.45, 2.0, 0.36, sweep=0.05, rise=0.18, tip=0.5),
        *_wing(-1.3, 0.85, 0.45, 0.25),
        _fin(-1.22, 0.42, 0.45, 0.34, sweep=0.1),
    ]


def _high_wing() -> list[Solid]:
    struts = both_sides(cylinder((0.3, 0.2, 0.4), (0.3, 0.85, 0.95), 0.035))
    floats = both_sides(
        ellipsoid((0.25, 0.5, 0.0), (0.95, 0.14, 0.13)), cylinder((0.3, 0.2, 0.4), (0.3, 0.5, 0), 0.04)
    )
    return [
        *_hull(2.3, 0.27, 0.6, nose=0.16, tail=0.55),
        box((0.25, 0, 0.82), (0.38, 0.23, 0.14), paint=0.7),
        box((0.3, 0, 0.99), (0.28, 1.5, 0.04)),
        *struts,
        *floats,
        *_wing(-0.98, 0.72, 0.5, 0.35),
        _fin(-0.95, 0.68, 0.5, 0.42, sweep=0.2),
        *_propeller((1.2, 0, 0.6), 0.42),
    ]


def _twin_tail_jet() -> list[Solid]:
    return [
        cone((-0.1, 0, 0.45), (1.6, 0, 0.4), 0.26, taper=0.05),
        box((-0.6, 0, 0.42), (0.75, 0.34, 0.15)),
        *both_sides(cylinder((-1.5, 0.2, 0.42), (-1.2, 0.2, 0.42), 0.15)),
        ellipsoid((0.55, 0, 0.62), (0.42, 0.14, 0.14), paint=0.6),
        *_wing(-0.35, 0.45, 1.25, 1.1, sweep=0.65, tip=0.25),
        *_wing(-1.25, 0.42, 0.8, 0.6, sweep=0.35, tip=0.4),
        *both_sides(_fin(-0.95, 0.5, 0.62, 0.55, y=0.36, lean=0.16, sweep=0.35)),
    ]


def _t_tail_jet() -> list[Solid]:
    pods = both_sides(cylinder((-1.05, 0.42, 0.72), (-0.45, 0.42, 0.72), 0.15))
    return [
        *_hull(3.0, 0.25, 0.55, nose=0.2, tail=0.3),
        *_wing(-0.1, 0.42, 1.4, 0.75, sweep=0.35, rise=0.08, tip=0.4),
        *pods,
        _fin(-1.2, 0.7, 0.7, 0.55, sweep=0.35),
        *_wing(-1.5, 1.35, 0.65, 0.36, sweep=0.2),
    ]


PLANES: tuple[Callable[[], list[Solid]], ...] = (
    _airliner,
    _high_wing,
    _bomber,
    _glider,
    _delta_fighter,
    _t_tail_jet,
    _biplane,
    _twin_tail_jet,
    _jumbo,
    _prop_trainer,
)

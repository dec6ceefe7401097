from __future__ import annotations

import math
from collections.abc import Callable

from torchcaps.data.worlds.toys.solid import Point, Solid, box, cone, cylinder, ellipsoid


def _limb(
    start: Point,
    lengths: tuple[float, float],
    bends: tuple[tuple[float, float], tuple[float, float]],
    radius: float,
) -> list[Solid]:
    """Two jointed cones. Each bend is (swing, spread) in degrees: forward, and away from straight down."""
    parts = []
    for length, (swing, spread), thick in zip(lengths, bends, (radius, radius * 0.78)):
        forward, side = math.radians(swing), math.radians(spread)
        end: Point = (
            start[0] + length * math.sin(forward) * math.cos(side),
            start[1] + length * math.sin(side),
            start[2] - length * math.cos(forward) * math.cos(side),
        )
        parts.append(cone(start, end, thick, taper=0.75))
        start = end
    return [*parts, ellipsoid(start, (radius * 0.95,) * 3)]


Bend = tuple[tuple[float, float], tuple[float, float]]
HANGING: Bend = ((0, 10), (6, 8))


def _figure(
    *,
    height: float = 1.0,
    width: float = 1.0,
    bulk: float = 1.0,
    head: float = 0.2,
    left_arm: Bend = HANGING,
    right_arm: Bend = HANGING,
    left_leg: Bend = ((0, 4), (0, 4)),
    right_leg: Bend = ((0, 4), (0, 4)),
    boxy: bool = False,
    feet: bool = True,
) -> list[Solid]:
    """A standing person, whose lower foot is put on the ground when the toy is put on the stage.

    Args:
        height: of the legs, 1 being a grown-up's.
        width: of the shoulders.
        bulk: of trunk and limbs.
        head: radius.
        left_arm: bends of the upper and the lower half, as are those of the other limbs.
        right_arm: the same; a positive spread is always away from the body.
        left_leg: the same.
        right_leg: the same.
        boxy: a trunk like a box rather than a barrel.
        feet: whether there are shoes.
    """
    hip = 0.95 * height
    chest = hip + 0.36
    half: Point = (0.16 * bulk, 0.26 * width, 0.38)
    trunk = cylinder((0, 0, chest - 0.38), (0, 0, chest + 0.38), half[1], flat=half[0] / half[1])
    if boxy:
        trunk = box((0, 0, chest), half)
    parts = [
        trunk,
        ellipsoid((0, 0, hip), (0.17 * bulk, 0.22 * width, 0.16)),
        cylinder((0, 0, chest + 0.36), (0, 0, chest + 0.5), 0.08),
        ellipsoid((0.02, 0, chest + 0.46 + head), (head, head * 0.86, head * 1.12)),
    ]
    for side, arm, leg in ((1, left_arm, left_leg), (-1, right_arm, right_leg)):
        upper, lower = ((bend[0], side * bend[1]) for bend in arm)
        parts += _limb((0, side * 0.31 * width, chest + 0.3), (0.36, 0.34), (upper, lower), 0.085 * bulk)
        upper, lower = ((bend[0], side * bend[1]) for bend in leg)
        limb = _limb(
            (0, side * 0.13 * width, hip), (0.48 * height, 0.46 * height), (upper, lower), 0.115 * bulk
        )
        x, y, z = limb[-1].center
        parts += limb[:2]
        if feet:
            parts.append(box((x + 0.07, y, z), (0.17, 0.075, 0.06)))
    return parts


def _soldier() -> list[Solid]:
    rifle = cylinder((0.3, -0.35, 1.0), (0.28, 0.3, 1.75), 0.045)
    helmet = ellipsoid((0.02, 0, 2.05), (0.26, 0.25, 0.14))
    return [
        *_figure(
            left_arm=((40, 10), (95, -20)),
            right_arm=((15, 15), (70, -10)),
            right_leg=((-12, 6), (-12, 4)),
            left_leg=((10, 6), (8, 4)),
        ),
        rifle,
        helmet,
    ]


def _dancer() -> list[Solid]:
    skirt = cone((0, 0, 0.72), (0, 0, 1.15), 0.55, taper=0.3)
    bun = ellipsoid((-0.16, 0, 2.05), (0.1, 0.1, 0.1))
    return [
        *_figure(
            width=0.8,
            bulk=0.8,
            head=0.18,
            left_arm=((0, 120), (0, 160)),
            right_arm=((0, 100), (0, 150)),
            left_leg=((0, 10), (0, 2)),
            right_leg=((-20, 14), (-50, 8)),
        ),
        skirt,
        bun,
    ]


def _giant() -> list[Solid]:
    return [
        *_figure(
            height=0.9,
            width=1.5,
            bulk=1.75,
            head=0.21,
            left_arm=((0, 28), (10, 12)),
            right_arm=((0, 28), (10, 12)),
            left_leg=((0, 10), (0, 8)),
            right_leg=((0, 10), (0, 8)),
            boxy=True,
        ),
        ellipsoid((0.06, 0, 1.02), (0.33, 0.42, 0.34)),
    ]


def _runner() -> list[Solid]:
    return _figure(
        left_arm=((55, 8), (120, 0)),
        right_arm=((-55, 8), (30, 0)),
        left_leg=((-30, 2), (-75, 2)),
        right_leg=((48, 2), (5, 2)),
    )


def _walker() -> list[Solid]:
    pack = box((-0.3, 0, 1.36), (0.15, 0.22, 0.3))
    hat = [cylinder((0.02, 0, 1.97), (0.02, 0, 2.0), 0.32), cylinder((0.02, 0, 1.98), (0.02, 0, 2.18), 0.17)]
    return [
        *_figure(
            left_arm=((30, 8), (45, 4)),
            right_arm=((-28, 8), (-10, 4)),
            left_leg=((-22, 2), (-28, 2)),
            right_leg=((26, 2), (18, 2)),
        ),
        pack,
        *hat,
    ]


def _scarecrow() -> list[Solid]:
    hat = cone((0, 0, 1.97), (0, 0, 2.45), 0.28)
    return [
        *_figure(
            bulk=0.8,
            width=0.9,
            left_arm=((0, 88), (0, 88)),
            right_arm=((0, 88), (0, 88)),
            left_leg=((0, 14), (0, 14)),
            right_leg=((0, 14), (0, 14)),
            boxy=True,
        ),
        hat,
    ]


def _child() -> list[Solid]:
    return [
        *_figure(
            height=0.62,
            width=0.82,
            bulk=1.0,
            head=0.3,
            left_arm=((0, 55), (0, 80)),
            right_arm=((0, 30), (30, 15)),
        ),
        ellipsoid((0.02, 0.24, 1.9), (0.1, 0.1, 0.1)),
        ellipsoid((0.02, -0.24, 1.9), (0.1, 0.1, 0.1)),
    ]


def _cheerer() -> list[Solid]:
    return _figure(
        width=1.1,
        bulk=1.15,
        left_arm=((0, 150), (0, 165)),
        right_arm=((0, 150), (0, 165)),
        left_leg=((0, 18), (0, 14)),
        right_leg=((0, 18), (0, 14)),
    )


def _lady() -> list[Solid]:
    gown = cone((0, 0, 0), (0, 0, 1.1), 0.52, taper=0.32)
    brim = cylinder((0.02, 0, 2.02), (0.02, 0, 2.05), 0.36)
    return [
        *_figure(
            width=0.82,
            bulk=0.85,
            head=0.18,
            left_arm=((15, 40), (40, -35)),
            right_arm=((0, 14), (10, 8)),
            feet=False,
        ),
        gown,
        brim,
    ]


def _guard() -> list[Solid]:
    shield = cylinder((0.26, 0.4, 1.15), (0.32, 0.42, 1.15), 0.38)
    spear = [
        cylinder((0.2, -0.52, 0), (0.2, -0.52, 2.5), 0.035),
        cone((0.2, -0.52, 2.4), (0.2, -0.52, 2.75), 0.09),
    ]
    return [
        *_figure(
            width=1.15,
            bulk=1.2,
            left_arm=((25, 12), (70, 8)),
            right_arm=((10, 25), (50, 20)),
            left_leg=((0, 10), (0, 8)),
            right_leg=((0, 10), (0, 8)),
        ),
        shield,
        *spear,
    ]


HUMANS: tuple[Callable[[], list[Solid]], ...] = (
    _soldier,
    _dancer,
    _giant,
    _runner,
    _walker,
    _scarecrow,
    _child,
    _cheerer,
    _lady,
    _guard,
)

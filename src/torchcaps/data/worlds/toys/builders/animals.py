from __future__ import annotations

import math
from collections.abc import Callable

from torchcaps.data.worlds.toys.solid import Point, Solid, both_sides, box, cone, cylinder, ellipsoid


def _frame(
    *,
    body: Point,
    legs: float,
    thick: float,
    neck: tuple[float, float, float],
    head: Point,
    tail: tuple[float, float, float],
    barrel: bool = False,
    stance: float = 0.72,
    nod: float = -25.0,
) -> tuple[list[Solid], Point]:
    """Body, four legs, neck, head and tail; also gives the head's center, to which ears and horns are fixed.

    Args:
        body: half length, half width, half height of the trunk.
        legs: free length under the trunk.
        thick: radius of a leg at the hip.
        neck: length, pitch in degrees, radius at the shoulder.
        head: half length, half width, half height.
        tail: length, pitch in degrees (negative hangs), radius at the root.
        barrel: whether the trunk is a cylinder rather than an ellipsoid.
        stance: how far along the trunk the legs stand, as a share of its half length.
        nod: pitch of the head in degrees.
    """
    length, width, height = body
    middle = legs + height
    trunk = ellipsoid((0, 0, middle), body)
    if barrel:
        trunk = cylinder((-length, 0, middle), (length, 0, middle), width, flat=height / width)
    limbs = both_sides(
        *(
            cone(
                (x * length, width * 0.62, middle),
                (x * length * 1.06, width * 0.66, 0),
                thick * 1.25,
                taper=0.55,
            )
            for x in (stance, -stance)
        )
    )
    neck_length, neck_pitch, neck_radius = neck
    rise = math.radians(neck_pitch)
    shoulder: Point = (length * 0.72, 0, middle + height * 0.25)
    nape: Point = (
        shoulder[0] + neck_length * math.cos(rise),
        0,
        shoulder[2] + neck_length * math.sin(rise),
    )
    face: Point = (nape[0] + head[0] * 0.55, 0, nape[2] + head[0] * math.tan(math.radians(nod)) * 0.4)
    tail_length, tail_pitch, tail_radius = tail
    droop = math.radians(tail_pitch)
    root: Point = (-length * 0.9, 0, middle + height * 0.35)
    end: Point = (root[0] - tail_length * math.cos(droop), 0, root[2] + tail_length * math.sin(droop))
    return [
        trunk,
        *limbs,
        cone(shoulder, nape, neck_radius, taper=0.65),
        ellipsoid(face, head, pitch=nod),
        cone(root, end, tail_radius, taper=0.3),
    ], face


def _horse() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(1.0, 0.38, 0.42),
        legs=1.05,
        thick=0.13,
        neck=(0.9, 52, 0.28),
        head=(0.42, 0.15, 0.18),
        tail=(0.85, -62, 0.13),
        nod=-42,
    )
    mane = box((x - 0.42, 0, z - 0.12), (0.5, 0.05, 0.16), pitch=52)
    return [*parts, mane, *both_sides(cone((x - 0.15, 0.09, z + 0.18), (x - 0.17, 0.1, z + 0.42), 0.07))]


def _lion() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(1.0, 0.34, 0.36),
        legs=0.62,
        thick=0.16,
        neck=(0.35, 35, 0.3),
        head=(0.32, 0.25, 0.25),
        tail=(1.0, 25, 0.07),
        nod=-8,
    )
    mane = ellipsoid((x - 0.24, 0, z), (0.26, 0.52, 0.52))
    tuft = ellipsoid((-1.85, 0, 1.5), (0.16, 0.1, 0.1))
    return [*parts, mane, tuft, ellipsoid((x + 0.25, 0, z - 0.08), (0.18, 0.14, 0.12))]


def _elephant() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(1.05, 0.66, 0.66),
        legs=0.62,
        thick=0.26,
        neck=(0.25, 20, 0.45),
        head=(0.45, 0.4, 0.45),
        tail=(0.6, -70, 0.06),
        nod=-20,
    )
    trunk = [
        cone((x + 0.3, 0, z - 0.1), (x + 0.62, 0, z - 0.75), 0.2, taper=0.7),
        cone((x + 0.62, 0, z - 0.72), (x + 0.85, 0, z - 1.25), 0.14, taper=0.6),
    ]
    ears = both_sides(ellipsoid((x - 0.2, 0.55, z), (0.08, 0.42, 0.5), yaw=28))
    tusks = both_sides(cone((x + 0.25, 0.22, z - 0.25), (x + 0.85, 0.3, z - 0.4), 0.08))
    return [*parts, *trunk, *ears, *tusks]


def _cow() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(1.05, 0.42, 0.44),
        legs=0.7,
        thick=0.13,
        neck=(0.5, 22, 0.3),
        head=(0.38, 0.2, 0.22),
        tail=(0.8, -80, 0.05),
        barrel=True,
        nod=-30,
    )
    horns = both_sides(cone((x - 0.1, 0.15, z + 0.12), (x, 0.5, z + 0.38), 0.08))
    return [*parts, *horns, ellipsoid((-0.55, 0, 0.62), (0.28, 0.22, 0.18))]


def _dog() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(0.85, 0.28, 0.28),
        legs=0.62,
        thick=0.12,
        neck=(0.4, 48, 0.2),
        head=(0.3, 0.2, 0.2),
        tail=(0.6, 55, 0.09),
        nod=-5,
    )
    ears = both_sides(ellipsoid((x - 0.1, 0.22, z - 0.05), (0.1, 0.05, 0.22)))
    return [*parts, *ears, cone((x + 0.15, 0, z - 0.06), (x + 0.55, 0, z - 0.1), 0.13, taper=0.75)]


def _deer() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(0.85, 0.28, 0.32),
        legs=1.0,
        thick=0.09,
        neck=(0.75, 60, 0.18),
        head=(0.32, 0.12, 0.14),
        tail=(0.2, 10, 0.1),
        nod=-20,
    )
    beam: Point = (x - 0.28, 0.38, z + 0.62)
    antlers = both_sides(
        cylinder((x - 0.1, 0.08, z + 0.1), beam, 0.045),
        cylinder((x - 0.2, 0.25, z + 0.4), (x + 0.12, 0.3, z + 0.68), 0.035),
        cylinder(beam, (x - 0.08, 0.5, z + 0.92), 0.035),
    )
    return [*parts, *antlers]


def _rhino() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(1.15, 0.55, 0.5),
        legs=0.42,
        thick=0.22,
        neck=(0.4, 5, 0.42),
        head=(0.5, 0.27, 0.28),
        tail=(0.4, -70, 0.06),
        nod=-25,
    )
    horns = [
        cone((x + 0.34, 0, z + 0.02), (x + 0.52, 0, z + 0.6), 0.14),
        cone((x + 0.08, 0, z + 0.18), (x + 0.14, 0, z + 0.45), 0.11),
    ]
    return [*parts, *horns, *both_sides(cone((x - 0.28, 0.2, z + 0.2), (x - 0.3, 0.26, z + 0.42), 0.09))]


def _camel() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(1.0, 0.36, 0.34),
        legs=1.1,
        thick=0.12,
        neck=(1.0, 38, 0.2),
        head=(0.36, 0.14, 0.16),
        tail=(0.5, -75, 0.05),
        nod=-10,
    )
    humps = [ellipsoid((0.4, 0, 1.78), (0.3, 0.24, 0.42)), ellipsoid((-0.4, 0, 1.78), (0.3, 0.24, 0.42))]
    return [*parts, *humps, ellipsoid((x - 0.22, 0, z + 0.14), (0.1, 0.16, 0.1))]


def _giraffe() -> list[Solid]:
    parts, (x, _, z) = _frame(
        body=(0.78, 0.32, 0.38),
        legs=1.25,
        thick=0.12,
        neck=(1.75, 66, 0.22),
        head=(0.34, 0.13, 0.15),
        tail=(0.7, -78, 0.05),
        nod=-22,
    )
    return [*parts, *both_sides(cylinder((x - 0.14, 0.07, z + 0.08), (x - 0.16, 0.09, z + 0.36), 0.04))]


def _lizard() -> list[Solid]:
    body = ellipsoid((0, 0, 0.38), (1.0, 0.34, 0.25))
    head = [
        ellipsoid((1.1, 0, 0.46), (0.34, 0.24, 0.2)),
        box((1.5, 0, 0.4), (0.32, 0.15, 0.09)),
    ]
    tail = [
        cone((-0.75, 0, 0.4), (-1.6, 0.1, 0.24), 0.26, taper=0.55),
        cone((-1.55, 0.08, 0.25), (-2.3, 0.45, 0.1), 0.15, taper=0.1),
    ]
    legs = both_sides(
        *(
            cone((x, 0.18, 0.42), (x + lean, 0.62, 0.22), 0.16, taper=0.7)
            for x, lean in ((0.6, 0.1), (-0.6, -0.1))
        ),
        *(
            cone((x + lean, 0.6, 0.3), (x + 2.4 * lean, 0.68, 0), 0.12, taper=0.8)
            for x, lean in ((0.6, 0.1), (-0.6, -0.1))
        ),
    )
    crest = [
        cone((x, 0, 0.5), (x - 0.05, 0, 0.82), 0.13, flat=0.4, across=(1, 0, 0))
        for x in (0.5, 0.15, -0.2, -0.55)
    ]
    return [body, *head, *tail, *legs, *crest]


ANIMALS: tuple[Callable[[], list[Solid]], ...] = (
    _horse,
    _lion,
    _cow,
    _camel,
    _elephant,
    _deer,
    _rhino,
    _giraffe,
    _lizard,
    _dog,
)

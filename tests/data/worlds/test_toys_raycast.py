import math

import numpy as np
import pytest

from torchcaps.data.worlds.toys.cameras import DISTANCE, look_from, stereo
from torchcaps.data.worlds.toys.raycast import cast_rays
from torchcaps.data.worlds.toys.solid import Solid, both_sides, box, cone, cylinder, ellipsoid
from torchcaps.data.worlds.toys.surfaces import surface

SIZE = 300
ORIGIN = np.zeros(3)


def area_seen(solid, azimuth=0.0, elevation=0.0):
    """Area of the silhouette in a parallel camera's picture, in the world's units."""
    sun = look_from([azimuth], [elevation], ORIGIN, half_field=1.0, parallel=True)
    return np.isfinite(cast_rays([solid], sun, SIZE).depth).mean() * 4


def normals(solid, azimuth, elevation, size=64):
    camera = look_from([azimuth], [elevation], ORIGIN)
    hits = cast_rays([solid], camera, size)
    seen = surface([solid], camera, hits)
    return seen, np.stack(seen.normal, axis=-1)


def test_ball_is_a_disc_of_the_right_size_in_perspective():
    radius = 0.5
    camera = look_from([0, 70], [0, 35], ORIGIN)
    seen = np.isfinite(cast_rays([ellipsoid((0, 0, 0), (radius,) * 3)], camera, SIZE).depth).mean((1, 2))
    tangent = radius / math.sqrt(DISTANCE**2 - radius**2)
    assert seen == pytest.approx([math.pi * tangent**2 / (2 * camera.half_field) ** 2] * 2, rel=5e-3)


@pytest.mark.parametrize(
    ("azimuth", "elevation", "half"), [(0, 0, (0.4, 0.6)), (90, 0, (0.3, 0.6)), (0, 90, (0.3, 0.4))]
)
def test_ellipsoid_silhouette_is_an_ellipse(azimuth, elevation, half):
    found = area_seen(ellipsoid((0, 0, 0), (0.3, 0.4, 0.6)), azimuth, elevation)
    assert found == pytest.approx(math.pi * half[0] * half[1], rel=5e-3)


def test_box_faces():
    solid = box((0.05, 0, 0), (0.3, 0.4, 0.6))
    assert area_seen(solid, 0, 0) == pytest.approx(4 * 0.4 * 0.6, rel=2e-2)
    assert area_seen(solid, 90, 0) == pytest.approx(4 * 0.3 * 0.6, rel=2e-2)
    assert area_seen(solid, 0, 90) == pytest.approx(4 * 0.3 * 0.4, rel=2e-2)
    # Every convex body shows its faces in proportion to the cosine of the angle between.
    slanted = 4 * (0.4 * 0.6 * math.cos(math.radians(30)) + 0.3 * 0.6 * math.sin(math.radians(30)))
    assert area_seen(solid, 30, 0) == pytest.approx(slanted, rel=2e-2)


def test_cylinder_and_cone_from_the_side_and_from_the_end():
    tube = cylinder((0, 0, -0.6), (0, 0, 0.6), 0.4)
    assert area_seen(tube) == pytest.approx(0.8 * 1.2, rel=1e-2)
    assert area_seen(tube, 0, 90) == pytest.approx(math.pi * 0.16, rel=1e-2)
    hat = cone((0, 0, -0.6), (0, 0, 0.6), 0.4)
    assert area_seen(hat) == pytest.approx(0.4 * 1.2, rel=1e-2)
    assert area_seen(hat, 0, 90) == pytest.approx(math.pi * 0.16, rel=1e-2)
    cut = cone((0, 0, -0.6), (0, 0, 0.6), 0.4, taper=0.5)
    assert area_seen(cut) == pytest.approx(0.6 * 1.2, rel=1e-2)


@pytest.mark.parametrize("make", [cylinder, cone])
def test_height_of_a_standing_solid(make):
    sun = look_from([17], [0], ORIGIN, half_field=1.0, parallel=True)
    rows = np.isfinite(cast_rays([make((0, 0, -0.3), (0, 0, 0.5), 0.2)], sun, SIZE).depth)[0].any(-1)
    z = -sun.pixel_centers(SIZE)[rows]
    assert z.max() == pytest.approx(0.5, abs=0.03)  # a cone's very tip is thinner than a ray's distance
    assert z.min() == pytest.approx(-0.3, abs=0.01)


def test_depths_in_front_of_the_camera():
    camera = look_from([0], [0], ORIGIN)
    for solid in (
        ellipsoid((0, 0, 0), (0.5, 0.3, 0.2)),
        box((0, 0, 0), (0.5, 0.3, 0.2)),
        cylinder((-0.5, 0, 0), (0.5, 0, 0), 0.3),
        cone((0.5, 0, 0), (-0.5, 0, 0), 0.3),
        cone((-0.5, 0, 0), (0.5, 0, 0), 0.3, taper=0.4),
        cone((-0.5, 0, 0), (0.5, 0, 0), 0.3, taper=1.0),
    ):
        assert cast_rays([solid], camera, 51).depth[0, 25, 25] == pytest.approx(DISTANCE - 0.5, abs=1e-5)


def test_the_nearer_solid_hides_the_farther_whatever_their_order():
    near, far = box((0.5, 0, 0), (0.1, 0.1, 0.1)), ellipsoid((-0.5, 0, 0), (0.3, 0.3, 0.3))
    camera = look_from([0], [0], ORIGIN)
    one, other = cast_rays([near, far], camera, 51), cast_rays([far, near], camera, 51)
    assert np.array_equal(one.depth, other.depth)
    assert one.part[0, 25, 25] == 0
    assert other.part[0, 25, 25] == 1


def test_rays_as_steep_as_a_cones_side_still_meet_it():
    hat = cone((0, 0, -0.5), (0, 0, 0.5), 0.5)
    slope = math.degrees(math.atan2(1.0, 0.5))
    areas = [area_seen(hat, 0, slope + shift) for shift in (-0.01, 0.0, 0.01)]
    assert max(areas) - min(areas) < 2e-3


def test_thin_solids_are_seen():
    mast = cylinder((0, 0, -0.5), (0, 0, 0.5), 2 / SIZE)
    assert area_seen(mast) == pytest.approx(4 / SIZE, rel=1e-6)  # two columns of rays
    assert np.isfinite(cast_rays([mast], look_from([33], [40], ORIGIN), 200).depth).any()


def test_normals_of_ball_and_box():
    seen, found = normals(ellipsoid((0, 0, 0), (0.5, 0.5, 0.5)), 40, 30)
    points = np.stack([component[seen.toy] for component in seen.point], axis=-1)
    assert np.allclose(found, points / 0.5, atol=1e-4)
    _, found = normals(box((0, 0, 0), (0.3, 0.4, 0.5)), 40, 30)
    assert {tuple(each) for each in np.abs(found).round(4).tolist()} <= {(1, 0, 0), (0, 1, 0), (0, 0, 1)}


@pytest.mark.parametrize(
    "solid",
    [
        ellipsoid((0, 0, 0), (0.5, 0.2, 0.3), roll=20, pitch=30, yaw=40),
        box((0, 0, 0), (0.5, 0.2, 0.3), roll=20, pitch=30, yaw=40),
        cylinder((-0.3, -0.2, 0), (0.3, 0.4, 0.2), 0.2, flat=0.5),
        cone((-0.3, -0.2, 0), (0.3, 0.4, 0.2), 0.3, taper=0.3),
        cone((0.1, 0, -0.3), (0, 0, 0.4), 0.3),
    ],
)
def test_normals_are_unit_and_face_the_camera(solid):
    seen, found = normals(solid, 25, 35)
    points = np.stack([component[seen.toy] for component in seen.point], axis=-1)
    towards = look_from([25], [35], ORIGIN).position[0] - points
    assert len(found) > 50
    assert np.allclose(np.linalg.norm(found, axis=-1), 1, atol=1e-5)
    assert ((found * towards).sum(-1) > -1e-3).mean() > 0.99


def test_support_bounds_what_is_seen():
    solid = cone((-0.3, -0.2, 0), (0.3, 0.4, 0.2), 0.3, taper=0.3)
    sun = look_from([0], [0], ORIGIN, half_field=1.0, parallel=True)  # its picture runs along y
    columns = np.isfinite(cast_rays([solid], sun, SIZE).depth)[0].any(0)
    y = sun.pixel_centers(SIZE)[columns]
    assert y.max() == pytest.approx(solid.support((0, 1, 0)), abs=0.02)
    assert y.min() == pytest.approx(-solid.support((0, -1, 0)), abs=0.02)


def test_mirror_images_look_mirrored():
    left, right = both_sides(cone((0, 0.3, 0), (0.3, 0.5, 0.4), 0.2))
    a = cast_rays([left], look_from([30], [20], ORIGIN), 64).depth
    b = cast_rays([right], look_from([-30], [20], ORIGIN), 64).depth
    assert (np.isfinite(a) == np.isfinite(b[..., ::-1])).mean() > 0.999


def test_disparity_grows_with_distance_from_the_middle():
    pair = stereo([0], [0], ORIGIN)
    u, _, _ = pair.project(np.array([[0.0, 0, 0], [0.5, 0, 0], [-0.5, 0, 0]]))
    disparity = u[0] - u[1]
    assert disparity[0] == pytest.approx(0, abs=1e-12)
    assert disparity[1] * disparity[2] < 0
    assert abs(disparity[1]) > 0.005


def test_impossible_solids_are_refused():
    with pytest.raises(ValueError, match="shape must be one of"):
        Solid("torus", (0, 0, 0), ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
    with pytest.raises(ValueError, match="volume"):
        box((0, 0, 0), (1, 1, 0))
    with pytest.raises(ValueError, match="at most 255"):
        cast_rays([box((0, 0, 0), (1, 1, 1))] * 256, look_from([0], [0], ORIGIN), 4)

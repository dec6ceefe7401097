from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch

from torchcaps.data import load
from torchcaps.data.worlds.solids import PARTS, WHOLES, SolidOptions, draw_solids
from torchcaps.data.worlds.solids.composing import view_rotation
from torchcaps.data.worlds.solids.drawing import eyes
from torchcaps.data.worlds.solids.scenes import SolidScenes
from torchcaps.data.worlds.solids.world import PAINT, part_scale, part_solid, whole_places
from torchcaps.data.worlds.toys.cameras import DISTANCE, look_from
from torchcaps.data.worlds.toys.raycast import cast_rays

# Points on the surface of each part, in unit coordinates, by the signs of x, y and z.
POINTS = {
    "box": (1.0, 0.5, 0.5),
    "plate": (0.5, 0.5, 1.0),
    "cylinder": (0.8, 0.6, 0.5),
    "cone": (0.48, 0.36, -0.2),
    "ellipsoid": (0.6, 0.48, 0.64),
}


SIZE = 160  # of the scenes whose colors are looked at


@cache
def dark_scenes() -> SolidScenes:
    """Scenes of one part, without a lamp."""
    return draw_solids("parts", 200, options=SolidOptions(size=SIZE, parts=1, light=(0, 0), lamp=(0, 0)))


@cache
def depth_of(scene: int) -> np.ndarray:
    """How far the part of a scene is, for each eye and pixel."""
    scenes = dark_scenes()
    solid = part_solid(int(scenes.part_type[scene, 0]), scenes.part_pose[scene, 0].numpy())
    return cast_rays([solid], eyes(), SIZE).depth


def colors(name: str, point: tuple[float, float, float]) -> np.ndarray:
    """Brightness of the pixels where a point of a part should be, in views that see it, without a lamp."""
    kind = [part.name for part in PARTS].index(name)
    scenes = dark_scenes()
    half = np.array(PARTS[kind].half)
    camera = eyes()
    found = []
    for scene in np.flatnonzero(scenes.part_type[:, 0].numpy() == kind):
        pose = scenes.part_pose[scene, 0].numpy()
        place = pose[:3, :3] @ (half * point) + pose[:3, 3]
        u, v, depth = camera.project(place[None])
        for eye in range(2):
            column, row = (int((float(each[eye, 0]) / camera.half_field + 1) / 2 * SIZE) for each in (u, v))
            # Only where the camera sees this very point, not the other side of the part.
            if abs(depth_of(int(scene))[eye, row, column] - depth[eye, 0]) < 0.02:
                found.append(float(scenes.images[scene, eye, row, column]) / 255)
    return np.array(found)


@pytest.mark.parametrize("name", POINTS)
def test_the_marks_are_where_the_pose_says(name: str) -> None:
    base, *shares = PAINT
    for signs in ((1, 1, 1), (-1, 1, 1), (1, -1, 1), (-1, -1, 1), (1, 1, -1)):
        # The cone's point is below its middle: above it there is little to see.
        point = tuple(sign * abs(value) for sign, value in zip(signs, POINTS[name]))
        if name == "cone":
            point = (*point[:2], POINTS[name][2])
        paint = base + sum(share * (value > 0) for share, value in zip(shares, point))
        # Without a lamp, a surface has 0.75 times its paint, and 50 % to 100 % of that by its normal.
        share = colors(name, point) / (0.75 * paint)
        assert len(share) >= 3
        # A pixel may lie on the border of two faces: a few may differ.
        assert np.mean((share > 0.45) & (share < 1.05)) >= 0.8, (point, share)


def test_the_pose_projects_to_the_middle_of_the_part() -> None:
    options = SolidOptions(parts=1, size=64)
    scenes = draw_solids("parts", 40, options=options)
    camera = eyes()
    columns = (torch.arange(64) + 0.5) / 32 - 1
    for scene in range(40):
        u, v, _ = camera.project(scenes.part_pose[scene, 0, :3, 3].numpy()[None])
        for eye in range(2):
            lit = scenes.images[scene, eye] > 5
            rows, places = lit.nonzero().T
            right, down = columns[places], columns[rows]
            assert abs(float(right.min() + right.max()) / 2 - u[eye, 0] / camera.half_field) < 0.2
            assert abs(float(down.min() + down.max()) / 2 - v[eye, 0] / camera.half_field) < 0.2


def test_depths_are_those_of_the_toys_ray_caster() -> None:
    scenes = draw_solids("single", 12)
    camera = eyes()
    for scene in range(12):
        parts = [
            part_solid(int(kind), pose.numpy())
            for kind, pose, there in zip(
                scenes.part_type[scene], scenes.part_pose[scene], scenes.part_mask[scene]
            )
            if there
        ]
        hits = cast_rays(parts, camera, 96)
        hit = np.isfinite(hits.depth)
        counts = [
            [int((hit & (hits.part == part))[eye].sum()) for eye in range(2)] for part in range(len(parts))
        ]
        seen = scenes.part_seen[scene, : len(parts)].numpy()
        assert abs(seen - np.array(counts)).max() <= 3


def test_a_camera_around_the_whole_sees_what_turning_the_whole_shows() -> None:
    azimuth, elevation = 70.0, 35.0
    camera = look_from([azimuth], [elevation], np.zeros(3))
    turned = view_rotation(np.array([[azimuth, elevation, 0.0]]))[0]
    axes = np.stack([-camera.forward[0], camera.right[0], -camera.down[0]])
    assert np.allclose(axes, turned, atol=1e-12)
    assert np.allclose(turned @ (DISTANCE * -camera.forward[0]), [DISTANCE, 0, 0])


def test_parts_are_where_the_whole_puts_them() -> None:
    scenes = draw_solids("single", 50)
    kind, place = whole_places()
    expected = scenes.whole_pose[:, None] @ torch.from_numpy(place)[scenes.labels]
    assert torch.allclose(scenes.part_pose, expected, atol=1e-12)
    types = torch.from_numpy(kind)[scenes.labels]
    assert torch.equal(types >= 0, scenes.part_mask)
    assert torch.equal(types[scenes.part_mask], scenes.part_type[scenes.part_mask])


def test_wholes_share_parts_and_differ_in_their_relations() -> None:
    assert len(WHOLES) >= 6
    assert all(3 <= len(whole.places) <= 5 for whole in WHOLES)
    kind, place = whole_places()
    families: dict[tuple[int, ...], list[int]] = {}
    for row in range(len(WHOLES)):
        members = kind[row][kind[row] >= 0].tolist()
        assert len(set(members)) == len(members)
        families.setdefault(tuple(sorted(members)), []).append(row)
    assert all(len(rows) >= 2 for rows in families.values())
    for members, rows in families.items():
        for one, other in combinations(rows, 2):
            first, second = (
                [place[row][list(kind[row]).index(member)] for member in members] for row in (one, other)
            )
            between = [[np.linalg.inv(parts[0]) @ part for part in parts[1:]] for parts in (first, second)]
            assert min(np.abs(a - b).max() for a, b in zip(*between)) > 0.5


def test_every_whole_fits_into_its_ball() -> None:
    kind, place = whole_places()
    around = np.random.default_rng(0).normal(size=(200, 3))
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    for row in range(len(WHOLES)):
        for member, pose in zip(kind[row], place[row]):
            if member >= 0:
                assert part_solid(int(member), pose).support(around).max() <= 1.01
                assert np.linalg.norm(pose[:3, 0]) == pytest.approx(part_scale())


@pytest.mark.parametrize("kind", ["parts", "single"])
def test_a_scene_has_the_same_bits_in_every_batch(kind: str) -> None:
    options = SolidOptions(size=24, noise=0.02)
    together = draw_solids(kind, 140, seed=3, options=options)
    alone = draw_solids(kind, 1, seed=3, start=133, options=options)
    for name in ("images", "part_pose", "part_type", "part_seen", "view"):
        assert torch.equal(getattr(together, name)[133:134], getattr(alone, name)), name
    assert not torch.equal(together.images, draw_solids(kind, 140, seed=4, options=options).images)


def test_loose_parts_lie_on_all_sides_and_are_seen_from_all_azimuths() -> None:
    scenes = draw_solids("parts", 600, options=SolidOptions(size=8, parts=2, elevation=(0, 0)))
    turned = scenes.part_pose[..., :3, :3].flatten(0, 1)
    turned = turned / turned[:, :, :1].norm(dim=1, keepdim=True)
    assert torch.allclose(torch.linalg.det(turned), torch.ones(1200, dtype=torch.float64))
    up, towards = turned[:, 2], turned[:, 0]  # the vertical and the line of sight in the part's own frame
    share, side = up.abs().max(1)
    assert torch.allclose(share, torch.ones(1200, dtype=torch.float64))
    sides = 2 * side + (up.gather(1, side[:, None])[:, 0] > 0)
    counts = torch.bincount(sides, minlength=6)
    assert counts.min() > 150
    for each in range(6):
        mine = towards[sides == each]
        around = torch.atan2(*(mine[:, [axis for axis in range(3) if axis != each // 2]].T))
        assert torch.histc(around.float(), 6, -np.pi, np.pi).min() > 0.1 * len(mine)


def test_ranges_are_kept_and_the_test_split_may_have_its_own() -> None:
    options = {"count": 50, "size": 8, "azimuth": (-40, 40), "elevation": (10, 20), "turn": (-5, 5)}
    train, test = load("solids", **options), load("solids", "test", test_azimuth=(90, 270), **options)
    low, high = train.metadata["view"].min(0).values, train.metadata["view"].max(0).values
    assert low.tolist() >= [-40, 10, -5]
    assert bool((high <= torch.tensor([40, 20, 5])).all())
    assert bool((test.metadata["view"][:, 0] >= 90).all())


def test_wrong_options_are_named() -> None:
    with pytest.raises(ValueError, match="scale must lie above 0"):
        SolidOptions(scale=(0.5, 2.0))
    with pytest.raises(ValueError, match="elevation must lie within"):
        SolidOptions(elevation=(0, 120))
    with pytest.raises(ValueError, match="kind"):
        draw_solids("crowded", 1)

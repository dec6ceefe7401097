"""Laws that hold in both flat worlds and for every kind of scene."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor

from torchcaps.data.worlds.faces import FACES
from torchcaps.data.worlds.flat import SceneOptions, Scenes, SceneStream, World, draw_world, pose_matrices
from torchcaps.data.worlds.flat.scenes import world_kinds
from torchcaps.data.worlds.shapes import SHAPES

CASES = [
    pytest.param(world, kind, id=f"{world.name}-{kind}")
    for world in (SHAPES, FACES)
    for kind in world_kinds(world)
]
BOTH = pytest.mark.parametrize("world", [SHAPES, FACES], ids=["shapes", "faces"])
EVERYTHING = SceneOptions(size=24, clutter=3, noise=0.1, texture=0.5, outline=True)


def equal(one: Scenes, other: Scenes, rows: slice) -> bool:
    pairs = [(one.images, other.images), (one.labels, other.labels)]
    pairs += [(one.truth()[name], values) for name, values in other.truth().items()]
    return all(torch.equal(values[rows], others) for values, others in pairs)


def part_points(scenes: Scenes) -> Tensor:
    """The outline of each part in the image's coordinates, `[N, P, M, 2]`."""
    own = torch.from_numpy(scenes.world.outlines)[scenes.part_type]
    own = torch.cat([own, torch.ones_like(own[..., :1])], dim=-1)
    points = (pose_matrices(scenes.part_pose).unsqueeze(-3) @ own.unsqueeze(-1))[..., :2, 0]
    return torch.where(scenes.part_mask[..., None, None], points, torch.zeros(()).double())


@pytest.mark.parametrize(("world", "kind"), CASES)
def test_a_scene_has_the_same_bits_in_a_batch_of_any_size(world: World, kind: str) -> None:
    batch = draw_world(world, kind, 140, seed=5, options=EVERYTHING)
    for start, count in ((0, 1), (3, 7), (120, 20), (139, 1)):
        part = draw_world(world, kind, count, seed=5, start=start, options=EVERYTHING)
        assert equal(batch, part, slice(start, start + count))


@pytest.mark.parametrize(("world", "kind"), CASES)
def test_every_scene_seed_and_split_is_another(world: World, kind: str) -> None:
    plain = SceneOptions(size=24)
    scenes = draw_world(world, kind, 30, options=plain)
    assert len(scenes.images.flatten(1).unique(dim=0)) == 30
    for other in ({"seed": 1}, {"split": "test"}):
        images = draw_world(world, kind, 30, options=plain, **other).images
        assert not (images == scenes.images).flatten(1).all(1).any()


@pytest.mark.parametrize(("world", "kind"), CASES)
def test_everything_is_inside_the_image(world: World, kind: str) -> None:
    for scale in (None, (0.2, 0.3)):
        points = part_points(draw_world(world, kind, 200, options=SceneOptions(size=8, scale=scale)))
        slack = 0.05 if any(world.vary) else 1e-9
        assert points.abs().max() <= 1 + slack


@BOTH
def test_wholes_and_groups_are_as_they_are_written_down(world: World) -> None:
    for table, types in ((world.whole, world.wholes), (world.group, world.groups)):
        for row, each in enumerate(types):
            count = len(each.slots)
            assert table.filled[row].tolist() == [True] * count + [False] * (len(table.filled[row]) - count)
            place = pose_matrices(torch.from_numpy(table.place[row, :count]))
            written = torch.stack([pose_matrices(torch.from_numpy(slot.pose)) for slot in each.slots])
            # Centering and scaling a whole does not change where its parts are relative to each other.
            relative, expected = (torch.linalg.inv(m[0]) @ m for m in (place, written))
            assert torch.allclose(relative, expected, atol=1e-12)


@pytest.mark.parametrize(("world", "kind"), CASES)
def test_every_whole_has_its_parts_where_they_belong(world: World, kind: str) -> None:
    scenes = draw_world(world, kind, 60, options=SceneOptions(size=8))
    table, shift = world.whole, world.vary[0]
    parts, wholes = pose_matrices(scenes.part_pose), pose_matrices(scenes.whole_pose)
    for scene, whole in scenes.whole_mask.nonzero().tolist():
        kind_of_whole = scenes.whole_type[scene, whole]
        filled = table.filled[kind_of_whole]
        mine = scenes.part_whole[scene] == whole
        types, inside = (
            scenes.part_type[scene, mine],
            torch.linalg.inv(wholes[scene, whole]) @ parts[scene, mine],
        )
        members = torch.from_numpy(table.member[kind_of_whole][filled])
        places = pose_matrices(torch.from_numpy(table.place[kind_of_whole][filled]))
        assert sorted(types.tolist()) == sorted(members.tolist())
        for member, place in zip(members, places):
            error = (inside[types == member] - place).abs().amax((1, 2)).min()
            assert error <= 2 * shift + 1e-12
    assert kind == "parts" or scenes.whole_mask.any()


@BOTH
def test_the_mask_of_a_part_has_its_place_and_size(world: World) -> None:
    size = 96
    scenes = draw_world(world, "parts", 60, options=SceneOptions(size=size, parts=1, scale=(0.8, 1.0)))
    masks = scenes.part_masks()[:, 0]
    assert masks.shape == (60, size, size)
    middle = (torch.arange(size) + 0.5) * 2 / size - 1
    total = masks.sum((1, 2))
    x = (masks.sum(1) * middle).sum(1) / total
    y = -(masks.sum(2) * middle).sum(1) / total
    a, b, *place = scenes.part_pose[:, 0].T
    for found, true in zip((x, y), place):
        assert (found - true).abs().max() < 0.3 * 2 / size
    areas = {
        "rectangle": lambda form: 2.0,
        "triangle": lambda form: 1.5,
        "ellipse": lambda form: math.pi * 0.62,
        "eye": lambda form: math.pi * form[0],
        "nose": lambda form: 1.5 * form[0],
        "mouth": lambda form: form[1] * 8 / 3,
    }
    expected = torch.tensor(
        [
            areas[world.part_names[kind]](form) * scale * (size / 2) ** 2
            for kind, form, scale in zip(
                scenes.part_type[:, 0], scenes.part_form[:, 0].tolist(), a * a + b * b
            )
        ]
    )
    assert (total / expected - 1).abs().max() < 0.06
    assert set(scenes.part_type[:, 0].tolist()) == {0, 1, 2}


@BOTH
def test_masks_agree_with_many_samples_per_pixel(world: World) -> None:
    size, fine = 64, 6
    scenes = draw_world(world, "parts", 12, options=SceneOptions(size=size, parts=1, scale=(0.8, 1.0)))
    samples = (np.arange(size * fine) + 0.5) * 2 / (size * fine) - 1
    x, y = np.meshgrid(samples, -samples)
    grid = np.stack([x, y, np.ones_like(x)], axis=-1)
    for scene in range(12):
        inverse = np.linalg.inv(pose_matrices(scenes.part_pose[scene, 0]).numpy())
        u, v = np.moveaxis(grid @ inverse[:2].T, -1, 0)
        form = scenes.part_form[scene, 0].numpy()
        inside = world.parts[scenes.part_type[scene, 0]].distance(u, v, form) < 0
        share = inside.reshape(size, fine, size, fine).mean((1, 3))
        error = np.abs(scenes.part_masks()[scene, 0].numpy() - share)
        assert error.max() < 0.4  # at the corners
        assert error.sum() / share.sum() < 0.05


@pytest.mark.parametrize(("world", "kind"), CASES)
def test_visible_masks_share_the_pixels(world: World, kind: str) -> None:
    scenes = draw_world(world, kind, 20, options=SceneOptions(size=32))
    full, seen = scenes.part_masks(), scenes.part_masks(visible=True)
    assert (seen <= full + 1e-6).all()
    assert seen.sum(1).max() <= 1 + 1e-5
    absent = ~scenes.part_mask
    assert not full[absent].any()
    # Where something is visible, the image is bright; elsewhere it is black.
    bright = scenes.images[:, 0] > 0
    assert bright[seen.amax(1) > 0.5].all()
    assert not bright[full.amax(1) == 0].any()
    wholes = scenes.whole_masks()
    for whole in range(wholes.shape[1]):
        for scene in range(20):
            mine = full[scene, scenes.part_whole[scene] == whole]
            assert torch.equal(wholes[scene, whole], mine.amax(0) if len(mine) else torch.zeros(32, 32))


@BOTH
@pytest.mark.parametrize("kind", ["single", "twins"])
def test_another_angle_rotates_image_and_truth(world: World, kind: str) -> None:
    common = {"size": 48, "offset": (0, 0), "separation": (0, 0), "outline": True}
    before = draw_world(world, kind, 30, options=SceneOptions(angle=(20, 20), **common))
    after = draw_world(world, kind, 30, options=SceneOptions(angle=(110, 110), **common))
    a, b, x, y = before.part_pose.unbind(-1)
    assert torch.allclose(after.part_pose, torch.stack([-b, a, -y, x], dim=-1), atol=1e-12)
    difference = after.images.int() - before.images.rot90(1, (2, 3)).int()
    assert difference.abs().max() <= 1


def relation_errors(world: World, kinds: list[int], poses: Tensor) -> list[float]:
    """Distance between the votes of each pair of parts for the same whole, by loops over matrices."""
    matrices = pose_matrices(poses)
    errors = []
    for whole in range(len(world.wholes)):
        places = pose_matrices(torch.from_numpy(world.whole.place[whole]))
        slots = np.flatnonzero(world.whole.filled[whole])
        for i, one in enumerate(kinds):
            for j, other in enumerate(kinds):
                for k in slots:
                    for m in slots:
                        pair = (world.whole.member[whole, k], world.whole.member[whole, m])
                        if i < j and k != m and pair == (one, other):
                            first = matrices[i] @ torch.linalg.inv(places[k])
                            second = matrices[j] @ torch.linalg.inv(places[m])
                            apart = torch.linalg.inv(first) @ second - torch.eye(3)
                            errors.append(max(float(apart[:2, 0].norm()), float(apart[:2, 2].norm())))
    return errors


@BOTH
def test_scrambled_scenes_hold_no_whole(world: World) -> None:
    scenes = draw_world(world, "scrambled", 500, options=SceneOptions(size=8, intact=0.0))
    assert not scenes.whole_mask.any()
    assert (scenes.part_whole == -1).all()
    kinds = np.where(scenes.part_mask, scenes.part_type, -1)
    error = world.relation_error(kinds, scenes.part_pose.numpy())
    assert error.min() >= world.tolerance * 0.99
    for scene in range(10):
        mask = scenes.part_mask[scene]
        slow = relation_errors(world, scenes.part_type[scene, mask].tolist(), scenes.part_pose[scene, mask])
        assert min(slow) == pytest.approx(error[scene])
    intact = draw_world(world, "scrambled", 100, options=SceneOptions(size=8, intact=1.0))
    assert intact.whole_mask.all()
    kinds = np.where(intact.part_mask, intact.part_type, -1)
    assert world.relation_error(kinds, intact.part_pose.numpy()).max() < world.tolerance / 2


@BOTH
def test_scrambled_scenes_have_the_parts_of_a_whole(world: World) -> None:
    scenes = draw_world(world, "scrambled", 300, options=SceneOptions(size=8))
    share = scenes.whole_mask.float().mean()
    assert 0.4 < share < 0.6
    nothing = scenes.labels == len(world.wholes)
    assert torch.equal(nothing, ~scenes.whole_mask[:, 0])
    assert scenes.classes == (*world.whole.names, "nothing")
    for scene in range(300):
        slots = world.wholes[scenes.whole_type[scene, 0]].slots
        found = [world.part_names[kind] for kind in scenes.part_type[scene, scenes.part_mask[scene]]]
        assert Counter(found) == Counter(slot.name for slot in slots)


@BOTH
def test_twins_are_alike_and_as_far_apart_as_told(world: World) -> None:
    scenes = draw_world(world, "twins", 200, options=SceneOptions(size=8, separation=(0.5, 1.0)))
    one, other = scenes.whole_pose.unbind(1)
    assert torch.equal(one[:, :2], other[:, :2])
    assert torch.equal(scenes.whole_type[:, 0], scenes.whole_type[:, 1])
    distance = (one - other)[:, 2:].norm(dim=1) / one[:, :2].norm(dim=1)
    assert distance.min() >= 0.5 - 1e-9
    assert distance.max() <= 1.0 + 1e-9
    assert distance.max() - distance.min() > 0.4
    for scene in range(20):
        parts, forms = scenes.part_pose[scene], scenes.part_form[scene]
        first, second = (scenes.part_whole[scene] == 0), (scenes.part_whole[scene] == 1)
        moved = parts[second] - torch.cat([torch.zeros(2), (other - one)[scene, 2:]])
        gaps = torch.cdist(parts[first], moved)
        assert gaps.amin(1).max() < 1e-9
        assert torch.equal(forms[first].sort(0).values, forms[second].sort(0).values)


@BOTH
def test_poses_are_in_the_ranges(world: World) -> None:
    options = SceneOptions(size=8, angle=(100, 260), scale=(0.3, 0.4), offset=(0.2, 0.5))
    a, b, x, y = draw_world(world, "single", 400, options=options).whole_pose[:, 0].T
    angle = torch.rad2deg(torch.atan2(b, a)) % 360
    for values, low, high in (
        (angle, 100, 260),
        (torch.hypot(a, b), 0.3, 0.4),
        (torch.hypot(x, y), 0.2, 0.5),
    ):
        assert low - 1e-9 <= values.min() < low + (high - low) / 10
        assert high + 1e-9 >= values.max() > high - (high - low) / 10


@BOTH
def test_what_is_behind_the_parts_does_not_change_them(world: World) -> None:
    plain = draw_world(world, "single", 20, options=SceneOptions(size=48))
    busy = draw_world(world, "single", 20, options=SceneOptions(size=48, clutter=20, outline=True))
    assert torch.equal(plain.part_pose, busy.part_pose)
    covered = plain.part_masks().amax(1) == 1
    assert torch.equal(plain.images[:, 0][covered], busy.images[:, 0][covered])
    assert (busy.images > plain.images).flatten(1).any(1).all()


def test_noise_has_the_standard_deviation_of_the_option() -> None:
    common = {"size": 48, "texture": 0.9}
    clean = draw_world(SHAPES, "single", 20, options=SceneOptions(**common)).images.float()
    noisy = draw_world(SHAPES, "single", 20, options=SceneOptions(**common, noise=0.04)).images.float()
    middle = (clean > 60) & (clean < 195)  # where nothing is clipped
    assert (noisy - clean)[middle].std() / 255 == pytest.approx(0.04, rel=0.05)


def test_epochs_of_a_stream_are_new_and_can_be_continued() -> None:
    stream = SceneStream(FACES, "crowded", batch_size=4, batches=3, seed=2, options=SceneOptions(size=24))
    assert len(stream) == 3
    first, second = list(stream.epoch(0)), list(stream.epoch(1))
    images = torch.cat([batch.images for batch in first + second]).flatten(1)
    assert len(images.unique(dim=0)) == 24
    assert torch.equal(next(stream.epoch(1, start=2)).images, second[2].images)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 4}, "size must be a whole number of at least 8"),
        ({"angle": 30}, "angle must be two numbers"),
        ({"angle": (30, -30)}, "angle must be two ascending numbers"),
        ({"angle": (0, float("nan"))}, "angle must be a finite number"),
        ({"scale": (0.0, 0.5)}, "scale must lie above 0"),
        ({"scale": (0.5, 1.5)}, "be at most 1"),
        ({"offset": (-0.1, 0.1)}, "offset must be a finite number of at least 0"),
        (
            {"scale": (0.5, 0.9), "offset": (0.0, 0.5)},
            "leaves the image; with this offset, scale may be at most 0.5",
        ),
        ({"parts": 0}, "parts must be a whole number of at least 1"),
        ({"wholes": 1.5}, "wholes must be a whole number"),
        ({"clutter": -1}, "clutter must be a whole number of at least 0"),
        ({"noise": -0.1}, "noise must be a finite number of at least 0"),
        ({"texture": 1.2}, "texture must be at most 1"),
        ({"intact": 2}, "intact must be at most 1"),
    ],
)
def test_wrong_options_are_explained(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw_world(SHAPES, "single", 1, options=SceneOptions(**options))


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(ValueError, match=r"unknown kind 'group'.*did you mean 'groups'"):
        draw_world(SHAPES, "group", 1)
    with pytest.raises(ValueError, match="unknown kind 'groups'"):
        draw_world(FACES, "groups", 1)
    with pytest.raises(ValueError, match="count"):
        draw_world(SHAPES, "single", 0)
    with pytest.raises(ValueError, match="leaves the image"):
        draw_world(SHAPES, "twins", 1, options=SceneOptions(separation=(0, 9)))

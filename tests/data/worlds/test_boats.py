import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchcaps.data import load
from torchcaps.data.worlds.boats import (
    PARTS,
    PLACE,
    RELATION,
    WHOLES,
    draw,
    pose_matrix,
    pose_numbers,
    scene,
    votes,
)
from torchcaps.data.worlds.boats.relations import CORNERS

KINDS = ("single", "crowded", "ambiguous")
seeds = st.integers(min_value=0, max_value=2**31)
kinds = st.sampled_from(KINDS)


def corners_of(world):
    """Corners of every part in the picture's coordinates, part by part."""
    for kind, pose in zip(world.part_type.tolist(), world.part_pose):
        own = torch.tensor(CORNERS[kind], dtype=torch.float64)
        yield own @ pose[:2, :2].T + pose[:2, 2]


def agreeing(world, tolerance=1e-9):
    """Pairs of a rectangle and a triangle whose votes for some type of whole are the same."""
    cast = votes(world.part_type, world.part_pose)
    return {
        (min(i, j), max(i, j), whole)
        for i, j in itertools.combinations(range(len(cast)), 2)
        if world.part_type[i] != world.part_type[j]
        for whole in range(len(WHOLES))
        if torch.allclose(cast[i, whole], cast[j, whole], atol=tolerance)
    }


def test_relations_undo_places():
    unit = torch.eye(3, dtype=torch.float64).expand(2, 2, 3, 3)
    assert torch.allclose(PLACE @ RELATION, unit, atol=1e-15)
    assert PLACE.shape == (len(WHOLES), len(PARTS), 3, 3)


def test_no_part_alone_differs_between_house_and_boat():
    assert torch.allclose(pose_numbers(PLACE)[..., 3], torch.ones(2, 2, dtype=torch.float64))


@given(x=st.floats(-2, 2), y=st.floats(-2, 2), angle=st.floats(-3.1, 3.1), scale=st.floats(0.01, 5))
def test_pose_numbers_undo_pose_matrix(x, y, angle, scale):
    numbers = pose_numbers(pose_matrix(x, y, angle, scale))
    assert numbers.tolist() == pytest.approx([x, y, angle, scale], abs=1e-12)


@given(kind=kinds, seed=seeds)
def test_every_part_votes_exactly_for_its_whole(kind, seed):
    world = scene(kind, seed=seed)
    mine = world.part_whole >= 0
    number = world.part_whole[mine]
    vote = world.part_pose[mine] @ RELATION[world.whole_type[number], world.part_type[mine]]
    assert torch.allclose(vote, world.whole_pose[number], atol=1e-12, rtol=0)
    both = votes(world.part_type, world.part_pose)[mine]
    assert torch.allclose(both[torch.arange(len(number)), world.whole_type[number]], vote, atol=1e-12, rtol=0)


@given(kind=kinds, seed=seeds)
def test_every_whole_has_a_rectangle_and_a_triangle(kind, seed):
    world = scene(kind, seed=seed)
    for whole in range(len(world.whole_type)):
        assert sorted(world.part_type[world.part_whole == whole].tolist()) == [0, 1]
    assert world.part_pose.dtype == world.whole_pose.dtype == torch.float64


@given(kind=kinds, seed=seeds)
def test_parts_are_inside_the_image(kind, seed):
    for corners in corners_of(scene(kind, seed=seed)):
        assert corners.abs().max() <= 1 + 1e-9


@given(kind=kinds, seed=seeds)
@settings(max_examples=15)
def test_the_same_seed_gives_the_same_scene_and_image(kind, seed):
    one, other = scene(kind, seed=seed), scene(kind, seed=seed)
    assert all(torch.equal(value, getattr(other, name)) for name, value in vars(one).items())
    assert torch.equal(draw([one], 24), draw([other], 24))
    assert not torch.equal(one.part_pose, scene(kind, seed=seed + 1).part_pose)


@given(seed=seeds)
def test_only_true_wholes_find_agreement_unless_ambiguous(seed):
    world = scene("crowded", seed=seed)
    truth = set()
    for whole, kind in enumerate(world.whole_type.tolist()):
        first, second = (world.part_whole == whole).nonzero()[:, 0].tolist()
        truth.add((first, second, kind))
    assert agreeing(world, tolerance=1e-3) == truth


@given(seed=seeds)
def test_ambiguous_scenes_hold_a_decoy_that_leaves_two_parts_over(seed):
    world = scene("ambiguous", seed=seed)
    pairs = agreeing(world)
    assert len(pairs) == 3
    kinds = world.whole_type.tolist()
    assert kinds[0] == kinds[1]
    decoy = 1 - kinds[0]
    assert world.decoy_type.tolist() == [decoy]
    ((first, second, _),) = [pair for pair in pairs if pair[2] == decoy]
    assert world.part_whole[first] != world.part_whole[second]
    cast = votes(world.part_type, world.part_pose)
    for part in (first, second):
        assert torch.allclose(cast[part, decoy], world.decoy_pose[0], atol=1e-12, rtol=0)
    explained = [{first, second} for first, second, kind in pairs if kind != decoy]
    assert set.union(*explained) == {0, 1, 2, 3}
    assert not explained[0] & explained[1]


def test_crowded_scenes_overlap_sometimes_and_have_strays():
    worlds = [scene("crowded", seed=seed) for seed in range(60)]
    assert {len(world.part_type) for world in worlds} == {8, 9, 10}
    touching = 0
    for world in worlds:
        boxes = [(corners.amin(0), corners.amax(0)) for corners in corners_of(world)]
        touching += any(
            bool(((low_a < high_b) & (low_b < high_a)).all())
            for (i, (low_a, high_a)), (j, (low_b, high_b)) in itertools.combinations(enumerate(boxes), 2)
            if world.part_whole[i] != world.part_whole[j]
        )
    assert touching > 20
    assert len(scene("crowded", seed=0, wholes=9).whole_type) == 9


def test_both_types_occur_in_every_kind():
    for kind in KINDS:
        found = torch.cat([scene(kind, seed=seed).whole_type for seed in range(40)]).float().mean()
        assert 0.25 < found < 0.75


def test_drawn_area_is_the_parts_area():
    """With the paint at full brightness and no overlap, a triangle shows its area, smooth edges included."""
    world = scene("single", seed=4)
    only = int((world.part_type == 1).nonzero()[0])
    fields = {
        "part_type": world.part_type[only : only + 1],
        "part_pose": world.part_pose[only : only + 1],
        "part_whole": world.part_whole[only : only + 1],
        "brightness": torch.ones(1, dtype=torch.float64),
    }
    alone = type(world)(**{**vars(world), **fields})
    scale = pose_numbers(world.part_pose[only])[3].item()
    for size in (48, 96):
        shown = draw([alone], size).double().sum().item() / 255 * (2 / size) ** 2
        assert shown == pytest.approx(scale**2, rel=0.02)


def test_the_image_follows_the_pose():
    world = scene("single", seed=2)
    step = pose_matrix(2 / 48, 0, 0, 1)  # one pixel to the right
    moved = type(world)(**{**vars(world), "part_pose": step @ world.part_pose})
    one, other = draw([world]).int(), draw([moved]).int()
    assert (one[..., :-1] - other[..., 1:]).abs().max() <= 1
    quarter = pose_matrix(0, 0, math.pi / 2, 1)
    turned = type(world)(**{**vars(world), "part_pose": quarter @ world.part_pose})
    assert (torch.rot90(one, 1, (2, 3)) - draw([turned]).int()).abs().max() <= 1


def test_scenes_are_drawn_independently():
    worlds = [scene("crowded", seed=seed) for seed in range(20)]
    together = draw(worlds, 32)
    assert all(torch.equal(together[number], draw([world], 32)[0]) for number, world in enumerate(worlds))
    assert draw([], 8).shape == (0, 1, 8, 8)


@pytest.mark.parametrize(("kind", "wholes"), [("single", 1), ("crowded", 4), ("ambiguous", 2)])
def test_image_set(kind, wholes):
    images = load("boats", "test", kind=kind, count=30, size=32)
    facts = images.metadata
    most = facts["part_mask"].shape[1]
    assert images.images.shape == (30, 1, 32, 32)
    assert images.classes == ("house", "boat")
    assert images.labels.shape == ((30,) if kind == "single" else (30, wholes))
    assert facts["part_pose"].shape == (30, most, 3, 3)
    assert facts["part_numbers"].shape == (30, most, 4)
    assert facts["whole_pose"].shape == (30, wholes, 3, 3)
    assert facts["whole_mask"].all()
    assert (facts["part_whole"][~facts["part_mask"]] == -1).all()
    assert ("decoy_pose" in facts) == (kind == "ambiguous")
    assert torch.equal(facts["whole_type"], images.labels.reshape(30, -1))
    mine = facts["part_whole"] >= 0
    row = torch.arange(30)[:, None].expand_as(mine)[mine]
    number = facts["part_whole"][mine]
    relation = RELATION.float()[facts["whole_type"][row, number], facts["part_type"][mine]]
    vote = facts["part_pose"][mine] @ relation
    assert torch.allclose(vote, facts["whole_pose"][row, number], atol=1e-5)


def test_a_class_can_repeat_in_crowded_scenes_and_does_in_ambiguous_ones():
    boats = load("boats", "test", kind="crowded", count=200).labels.sum(1)
    assert set(boats.tolist()) == {0, 1, 2, 3, 4}
    first, second = load("boats", "test", kind="ambiguous", count=50).labels.unbind(1)
    assert torch.equal(first, second)


def test_scenes_stay_the_same():
    """Published results depend on these random numbers."""
    crowded = load("boats", "test", kind="crowded", count=8)
    assert crowded.labels.sum(1).tolist() == [0, 2, 3, 3, 2, 2, 2, 2]
    assert crowded.metadata["part_mask"].sum(1).tolist() == [8, 9, 8, 9, 8, 10, 9, 10]
    assert crowded.images.float().mean().item() == pytest.approx(27.109, abs=0.01)
    single = load("boats", "train", count=8)
    assert single.labels.tolist() == [0, 1, 1, 1, 1, 0, 1, 1]
    assert single.images.float().mean().item() == pytest.approx(19.701, abs=0.01)


def test_splits_seeds_and_counts():
    train, test = load("boats", "train", count=12), load("boats", "test", count=12)
    assert not torch.equal(train.images, test.images)
    assert torch.equal(train.images[:5], load("boats", "train", count=5).images)
    assert not torch.equal(train.images, load("boats", "train", count=12, seed=1).images)
    assert len(load("boats", "test")) == 1000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "crowd"}, "did you mean 'crowded'"),
        ({"split": "valid"}, "unknown split"),
        ({"count": 0}, "count must be"),
        ({"wholes": 0}, "wholes must be"),
    ],
)
def test_wrong_options_are_named(options, message):
    split = options.pop("split", "train")
    with pytest.raises(ValueError, match=message):
        load("boats", split, **options)
    with pytest.raises(ValueError, match="unknown kind of scene"):
        scene("sinking")

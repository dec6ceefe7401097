from __future__ import annotations

import numpy as np
import pytest
import torch

from torchcaps.data import dataset_info, load
from torchcaps.data.worlds.flat import SceneOptions, pose_matrices, pose_numbers
from torchcaps.data.worlds.shapes import MARKS, SHAPES, draw_scenes
from torchcaps.training.data import load_train
from torchcaps.training.recipe import DataPart


def at(images: torch.Tensor, pose: torch.Tensor, point: tuple[float, float]) -> torch.Tensor:
    """Brightness `[N]` of the pixel at a point in a part's own coordinates."""
    x, y, _ = (pose_matrices(pose) @ torch.tensor([*point, 1.0]).double()).unbind(-1)
    size = images.shape[-1]
    column, row = (((each + 1) * size / 2).long() for each in (x, -y))
    return images[torch.arange(len(images)), 0, row, column].float()


def test_the_mark_of_a_part_is_where_its_pose_says() -> None:
    scenes = draw_scenes("parts", 200, options=SceneOptions(size=128, parts=1, scale=(0.7, 1.0)))
    for kind, name in enumerate(SHAPES.part_names):
        mine = scenes.part_type[:, 0] == kind
        images, pose = scenes.images[mine], scenes.part_pose[mine, 0]
        x, y = MARKS[name]
        assert mine.sum() > 30
        # The mark has 42 % of the brightness of its part; opposite of it, the part is as bright as elsewhere.
        bright = at(images, pose, (-x / 2, -y / 2))
        torch.testing.assert_close(at(images, pose, (x, y)), 0.42 * bright, atol=1.0, rtol=0.0)
        assert bright.min() >= 0.6 * 255 - 1


@pytest.mark.parametrize(("one", "other"), [("house", "boat"), ("fish", "ice cream"), ("truck", "robot")])
def test_some_wholes_are_made_of_the_same_parts_in_the_same_sizes(one: str, other: str) -> None:
    table = SHAPES.whole

    def parts(name: str) -> list[tuple[int, float]]:
        row = table.names.index(name)
        scale = np.hypot(table.place[row, :, 0], table.place[row, :, 1]).round(9)
        return sorted(zip(table.member[row][table.filled[row]].tolist(), scale[table.filled[row]].tolist()))

    assert parts(one) == parts(other)


@pytest.mark.parametrize(("one", "other"), [("harbor", "dock"), ("street", "garage")])
def test_some_groups_are_made_of_the_same_wholes_in_the_same_sizes(one: str, other: str) -> None:
    table = SHAPES.group
    first, second = table.names.index(one), table.names.index(other)
    assert table.member[first].tolist() == table.member[second].tolist()
    assert np.allclose(table.place[first, :, :2], table.place[second, :, :2])
    assert not np.allclose(table.place[first, :, 2:], table.place[second, :, 2:])


def test_three_levels_belong_together() -> None:
    scenes = draw_scenes("groups", 200, options=SceneOptions(size=16))
    assert torch.equal(scenes.labels, scenes.group_type[:, 0])
    assert set(scenes.labels.tolist()) == set(range(len(SHAPES.groups)))
    assert (scenes.whole_group[scenes.whole_mask] == 0).all()
    place = pose_matrices(torch.from_numpy(SHAPES.group.place))[scenes.labels]
    expected = pose_matrices(scenes.group_pose) @ place
    assert torch.allclose(pose_matrices(scenes.whole_pose), expected, atol=1e-12)
    assert (scenes.part_whole[scenes.part_mask] >= 0).all()


def test_ambiguous_scenes_have_two_readings() -> None:
    scenes = draw_scenes("ambiguous", 100, options=SceneOptions(size=16))
    inverse = torch.linalg.inv(pose_matrices(torch.from_numpy(SHAPES.whole.place)))
    parts, decoys = pose_matrices(scenes.part_pose), pose_matrices(scenes.decoy_pose)
    assert torch.equal(scenes.labels[:, 0], scenes.labels[:, 1])
    for scene in range(100):
        decoy = scenes.decoy_type[scene, 0]
        assert decoy != scenes.labels[scene, 0]
        members = SHAPES.whole.member[decoy]
        agreeing = [
            part
            for part in scenes.part_mask[scene].nonzero()[:, 0].tolist()
            for slot in np.flatnonzero(SHAPES.whole.filled[decoy])
            if members[slot] == scenes.part_type[scene, part]
            and torch.allclose(parts[scene, part] @ inverse[decoy, slot], decoys[scene, 0], atol=1e-9)
        ]
        assert len(agreeing) == 2
        assert sorted(scenes.part_whole[scene, agreeing].tolist()) == [0, 1]


def test_crowded_scenes_hold_as_many_wholes_as_told_and_some_strays() -> None:
    scenes = draw_scenes("crowded", 200, options=SceneOptions(size=16, wholes=6))
    assert scenes.labels.shape == (200, 6)
    assert scenes.whole_mask.all()
    strays = (scenes.part_mask & (scenes.part_whole < 0)).sum(1)
    assert set(strays.tolist()) == {0, 1, 2}


@pytest.mark.parametrize(
    ("kind", "shape", "classes"),
    [
        ("parts", (3, 3), 3),
        ("single", (3,), 8),
        ("scrambled", (3,), 9),
        ("crowded", (3, 4), 8),
        ("twins", (3, 2), 8),
        ("ambiguous", (3, 2), 8),
        ("groups", (3,), 6),
    ],
)
def test_labels_of_each_kind(kind: str, shape: tuple[int, ...], classes: int) -> None:
    images = load("shapes", "test", kind=kind, count=3, size=16)
    assert images.labels.shape == shape
    assert images.num_classes == classes
    assert images.images.shape == (3, 1, 16, 16)
    assert torch.allclose(
        pose_numbers(images.metadata["part_pose"]), images.metadata["part_numbers"], atol=1e-6
    )


def test_train_and_test_have_ranges_of_their_own() -> None:
    options = {
        "count": 100,
        "size": 16,
        "angle": [-30, 30],
        "test_angle": [90, 270],
        "test_scale": [0.3, 0.4],
    }
    train, test = load("shapes", **options), load("shapes", "test", **options)
    angle, scale = train.metadata["whole_numbers"][:, 0, 2:].T
    assert angle.abs().max() <= np.radians(30) + 1e-6
    assert scale.min() >= 0.5
    angle, scale = test.metadata["whole_numbers"][:, 0, 2:].T
    assert angle.abs().min() >= np.radians(90) - 1e-6
    assert scale.max() <= 0.4 + 1e-6


def test_a_larger_set_begins_with_the_smaller_one() -> None:
    few, many = load("shapes", count=5, size=16), load("shapes", count=150, size=16)
    assert torch.equal(few.images, many.images[:5])
    assert not torch.equal(few.images, load("shapes", count=5, size=16, seed=1).images)


def test_recipes_can_resample_each_epoch() -> None:
    assert dataset_info("shapes").random
    data = DataPart("shapes", {"count": 4, "size": 16, "kind": "groups"}, resample_each_epoch=True)
    first, second = load_train(data, 0, seed=0), load_train(data, 1, seed=0)
    assert not torch.equal(first.images, second.images)


def test_wrong_options_of_the_set_are_explained() -> None:
    with pytest.raises(ValueError, match="unknown split"):
        load("shapes", "valid")
    with pytest.raises(
        ValueError, match="unknown option 'angles' for data set 'shapes': did you mean 'angle'"
    ):
        load("shapes", angles=(0, 1))
    with pytest.raises(ValueError, match="angle must be two ascending numbers"):
        load("shapes", "test", count=1, test_angle=(1, 0))

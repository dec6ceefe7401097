from __future__ import annotations

import numpy as np
import torch

from torchcaps.data import dataset_info, load
from torchcaps.data.worlds.faces import FACES, draw_scenes
from torchcaps.data.worlds.flat import SceneOptions, pose_matrices

EYE, NOSE, MOUTH = range(3)


def test_every_whole_is_made_of_the_same_parts_in_the_same_sizes() -> None:
    table = FACES.whole
    scales = np.hypot(table.place[..., 0], table.place[..., 1])
    for row in range(1, len(table.names)):
        assert table.member[row].tolist() == table.member[0].tolist()
        assert np.allclose(scales[row], scales[0])
    assert table.names[0] == "face"
    assert len(table.names) >= 3


def test_parts_vary_within_their_ranges() -> None:
    scenes = draw_scenes("single", 300, options=SceneOptions(size=8))
    for kind, shape in enumerate(FACES.parts):
        forms = scenes.part_form[scenes.part_type == kind]
        for values, (low, high) in zip(forms.T, shape.form):
            assert low <= values.min() < low + (high - low) / 10
            assert high >= values.max() > high - (high - low) / 10


def test_both_eyes_of_a_face_are_alike() -> None:
    scenes = draw_scenes("crowded", 50, options=SceneOptions(size=8))
    forms = []
    for scene in range(50):
        for whole in range(4):
            eyes = (scenes.part_whole[scene] == whole) & (scenes.part_type[scene] == EYE)
            assert eyes.sum() == 2
            one, other = scenes.part_form[scene, eyes]
            assert torch.equal(one, other)
            forms.append(one)
    assert len(torch.stack(forms).unique(dim=0)) == 200


def test_eyes_are_above_the_nose_and_the_mouth_below() -> None:
    scenes = draw_scenes("single", 300, options=SceneOptions(size=8))
    places = (torch.linalg.inv(pose_matrices(scenes.whole_pose)) @ pose_matrices(scenes.part_pose))[
        ..., :2, 2
    ]
    face = scenes.labels == 0
    assert face.sum() > 40
    for place, kinds in zip(places[face], scenes.part_type[face]):
        left, right = place[kinds == EYE].tolist()
        nose, mouth = place[kinds == NOSE][0], place[kinds == MOUTH][0]
        assert min(left[1], right[1]) > nose[1] > mouth[1]
        assert min(left[0], right[0]) < nose[0] < max(left[0], right[0])


def test_an_outline_adds_a_head_and_changes_nothing_else() -> None:
    plain = draw_scenes("scrambled", 60, options=SceneOptions(size=48))
    outlined = draw_scenes("scrambled", 60, options=SceneOptions(size=48, outline=True))
    for name, values in plain.truth().items():
        assert torch.equal(values, outlined.truth()[name])
    # Heads do not tell which wholes are scrambled.
    middle = (torch.arange(48) + 0.5) / 24 - 1
    x, y = scenes_grid(middle)
    a, b, *place = plain.whole_pose[:, 0].T
    scale = torch.hypot(a, b)
    radius = torch.hypot(x - place[0][:, None, None], y - place[1][:, None, None]) / scale[:, None, None]
    added = (outlined.images > 0)[:, 0]
    assert added[(radius < 0.8) & (plain.part_masks().amax(1) == 0)].float().mean() > 0.9
    nothing = ~plain.whole_mask[:, 0]
    beyond = ((radius > 1.1) & (plain.part_masks().amax(1) == 0) & added).flatten(1).any(1)
    assert not beyond.any()
    assert 0 < nothing.sum() < 60


def scenes_grid(middle: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y, x = torch.meshgrid(-middle, middle, indexing="ij")
    return x, y


def test_the_set_is_registered_with_its_options() -> None:
    images = load("faces", "test", count=6, kind="scrambled", size=32, outline=True, test_angle=(170, 190))
    assert images.classes == ("face", "bicycle", "boat", "snowman", "nothing")
    angle = images.metadata["whole_numbers"][:, 0, 2]
    assert (angle.abs() > np.radians(169)).all()
    assert dataset_info("faces").random

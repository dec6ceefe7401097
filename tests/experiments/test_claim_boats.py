from pathlib import Path

import pytest
import torch

from torchcaps.data.boats import RELATION, scene
from torchcaps.experiments.boats import (
    CLAIM,
    EM,
    KMEANS,
    ROUTINGS,
    UNIFORM,
    contested,
    decoy_belief,
    scenes_of,
    shares,
)
from torchcaps.experiments.parsing import Crowd, blurred, cast, crowds, nearby, parse, parts_right, trace
from torchcaps.experiments.running import reproduce


def one_crowd(kind: str, count: int = 12, noise: float = 0.0) -> Crowd:
    return next(crowds(scenes_of(0, kind, count), noise, seed=0))


def accuracy(kind: str, routing: str, noise: float = 0.0) -> float:
    found = [
        parts_right(crowd, parse(trace(crowd, ROUTINGS[routing]())[-1]))
        for crowd in crowds(scenes_of(0, kind, 20), noise, seed=0)
    ]
    return shares(found)["parts"]


def test_votes_are_poses_times_relations() -> None:
    crowd = one_crowd("crowded")
    vote = cast(crowd).tensor()[:, 0]
    for part, kind in enumerate(crowd.part_type.tolist()):
        for whole in range(2):
            expected = (crowd.part_pose[:, part] @ RELATION[whole, kind]).flatten(1)
            torch.testing.assert_close(
                vote[:, part, whole::2], expected[:, None].expand_as(vote[:, part, ::2])
            )


def test_crowds_hold_every_scene_and_its_truth() -> None:
    scenes = scenes_of(0, "crowded", 15)
    together = list(crowds(scenes, 0.0, seed=0))
    assert sum(len(crowd.part_pose) for crowd in together) == 15
    for crowd in together:
        assert crowd.part_type.tolist() == sorted(crowd.part_type.tolist())
        member = crowd.part_whole >= 0
        assert ((crowd.part_kind >= 0) == member).all()
        assert (member.sum(1) == 8).all()


def test_noise_moves_poses_by_its_size() -> None:
    pose = scene("single", seed=1).part_pose.repeat(200, 1, 1)
    seen = blurred(pose, 0.1, torch.Generator().manual_seed(0))
    moved = torch.linalg.inv(pose) @ seen  # in units of the part
    assert moved[:, :2, 2].std() == pytest.approx(0.1, rel=0.15)
    assert torch.atan2(moved[:, 1, 0], moved[:, 0, 0]).std() == pytest.approx(0.1, rel=0.15)
    assert torch.equal(blurred(pose, 0.0, torch.Generator()), pose)


@pytest.mark.parametrize("kind", ["single", "crowded", "ambiguous"])
def test_em_finds_the_wholes_and_uniform_routing_does_not(kind: str) -> None:
    assert accuracy(kind, EM, 0.02) > 90
    assert accuracy(kind, UNIFORM, 0.02) < 50


def test_only_a_count_of_votes_decides_what_is_ambiguous() -> None:
    """By distance alone both readings are as good: the decoy keeps half of the contested parts."""
    crowd = one_crowd("ambiguous")
    em, kmeans = (
        decoy_belief(crowd, parse(trace(crowd, ROUTINGS[name]())[-1]).belief) for name in (EM, KMEANS)
    )
    assert em.max() < 0.05
    torch.testing.assert_close(kmeans, torch.full_like(kmeans, 0.5), atol=0.05, rtol=0)


def test_contested_parts_are_those_that_agree_on_the_decoy() -> None:
    drawn = scene("ambiguous", seed=4)
    (crowd,) = crowds([drawn], 0.0, seed=0)
    inner = contested(crowd)[0] > 0
    agreed = crowd.part_pose[0] @ RELATION[drawn.decoy_type[0], crowd.part_type]
    assert inner.tolist() == [torch.allclose(each, drawn.decoy_pose[0]) for each in agreed]


def test_a_part_is_right_only_with_its_partner_its_type_and_nobody_else() -> None:
    whole, kind = torch.tensor([[0, 0, -1]]), torch.tensor([[1, 1, -1]])
    crowd = Crowd(torch.tensor([0, 1, 1]), torch.eye(3).repeat(1, 3, 1, 1), whole, kind)
    pair = torch.tensor([[[True, True, False], [True, True, False], [False, False, True]]])
    guess = nearby(crowd)._replace(together=pair, kind=torch.tensor([[1, 1, 0]]))
    assert parts_right(crowd, guess).tolist() == [[True, True, True]]
    assert parts_right(crowd, guess._replace(kind=torch.tensor([[0, 1, 0]]))).tolist() == [
        [False, True, True]
    ]
    assert not parts_right(crowd, guess._replace(together=torch.ones_like(pair))).any()


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    assert result["verdicts"][0]["holds"] is True
    numbers = result["numbers"]
    assert numbers[f"{EM}.ambiguous.parts"] > numbers[f"{KMEANS}.ambiguous.parts"] + 30
    for name in ("trees", "ambiguous", "noise"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "report.html").is_file()

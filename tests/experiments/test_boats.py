from pathlib import Path

import pytest
import torch

from torchcaps.data.worlds.boats import RELATION, scene
from torchcaps.experiments.boats import (
    CLAIM,
    DYNAMIC,
    EM,
    KMEANS,
    NEARBY,
    PROPOSED,
    ROUTINGS,
    UNIFORM,
    judge,
    scenes_of,
    shares,
)
from torchcaps.experiments.boats.parsing import (
    Crowd,
    blurred,
    contested,
    crowds,
    decoy_belief,
    nearby,
    parse,
    parts_right,
    trace,
    votes_of,
)
from torchcaps.experiments.boats.verdicts import KINDS, MIXING, ROUTED, WITHOUT, Right, caption_of
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study


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
    vote = votes_of(crowd).tensor()[:, 0]
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


@pytest.mark.parametrize("kind", KINDS)
def test_em_and_dynamic_routing_find_the_wholes_and_uniform_routing_does_not(kind: str) -> None:
    assert accuracy(kind, EM, 0.02) > 90
    assert accuracy(kind, DYNAMIC, 0.02) > 90
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


@pytest.mark.parametrize("seed", range(6))
def test_what_is_nearest_is_of_the_type_that_its_poses_imply(seed: int) -> None:
    """Alone in the picture, two parts are nearest to each other, and a house or a boat as they should."""
    (crowd,) = crowds([scene("single", seed=seed)], 0.02, seed=0)
    assert parts_right(crowd, nearby(crowd)).all()


def made_up(**ambiguous: float) -> Right:
    """All parts right in single and crowded scenes, but for those without routing."""
    names = {"em": EM, "mixing": MIXING, "kmeans": KMEANS, "dynamic": DYNAMIC, "before": PROPOSED}
    right = {name: dict.fromkeys(KINDS, 100.0) for name in ROUTED}
    right |= {name: {"single": 100.0, "crowded": 50.0, "ambiguous": 40.0} for name in WITHOUT}
    for key, share in ambiguous.items():
        right[names[key]]["ambiguous"] = share
    return right


CONTEST = {name: [0.5, 0.1] for name in ROUTED}


@pytest.mark.parametrize(
    ("right", "holds"),
    [
        (made_up(), [True, True, True]),
        (made_up(kmeans=45.0), [True, True, None]),
        (made_up(before=99.0), [None, None, False]),  # one part in a hundred is chance
        (made_up(em=60.0), [None, True, True]),
        (made_up(em=40.0), [False, None, None]),
        (made_up(em=30.0, mixing=40.0, kmeans=40.0, dynamic=40.0), [False, None, False]),
    ],
)
def test_verdicts_ask_for_more_than_there_is_without_routing(
    tmp_path: Path, right: Right, holds: list[bool | None]
) -> None:
    study = Study(tmp_path, quick=True)
    judge(study, right, CONTEST, count=100)
    assert [each["holds"] for each in study.results()["verdicts"]] == holds


def test_where_one_look_is_as_good_it_is_not_called_routing(tmp_path: Path) -> None:
    study, right = Study(tmp_path, quick=True), made_up()
    right[PROPOSED] = dict(right[EM])
    judge(study, right, CONTEST, count=100)
    claim, routing, every = study.results()["verdicts"]
    assert (claim["holds"], routing["holds"], every["holds"]) == (None, False, False)
    assert "as good" in routing["sentence"]
    assert PROPOSED in claim["sentence"]


def test_sentences_name_the_strongest_without_routing(tmp_path: Path) -> None:
    study, right = Study(tmp_path, quick=True), made_up()
    right[NEARBY]["ambiguous"] = 71.0
    judge(study, right, CONTEST, count=100)
    assert f"71 % ({NEARBY})" in study.results()["verdicts"][0]["sentence"]


@pytest.mark.parametrize(("kept", "decides"), [(0.49, False), (0.02, True)])
def test_the_caption_says_who_decides_only_if_it_is_so(kept: float, decides: bool) -> None:
    text = caption_of({EM: [0.5, kept], KMEANS: [0.5, kept]})
    assert ("gives the decoy up" in text) is decides
    assert ("does not decide" in text) is not decides


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
    assert [each["holds"] for each in result["verdicts"]] == [True, None, None]
    numbers = result["numbers"]
    assert numbers[f"{EM}.ambiguous.parts"] > numbers[f"{KMEANS}.ambiguous.parts"] + 30
    assert numbers[f"{DYNAMIC}.crowded.parts"] > 90
    assert numbers[f"{NEARBY}.single.parts"] > 90
    assert result["recipes"]["scenes"]["routings"][DYNAMIC]["iterations"] == 3
    for name in ("trees", "ambiguous", "noise"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "report.html").is_file()

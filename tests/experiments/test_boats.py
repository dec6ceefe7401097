from pathlib import Path

import pytest
import torch

from torchcaps.data.worlds.boats import RELATION, scene
from torchcaps.experiments.boats import CLAIM, make_scenes, percent_correct
from torchcaps.experiments.boats.parsing import (
    DYNAMIC,
    EM,
    INITIAL,
    KINDS,
    KMEANS,
    MIXING,
    NEAREST,
    ROUTED,
    ROUTINGS,
    UNIFORM,
    UNROUTED,
    SceneBatch,
    add_noise,
    batch_scenes,
    contested_parts,
    correct_parts,
    decoy_share,
    make_votes,
    pair_nearest,
    parse,
    route_scenes,
)
from torchcaps.experiments.boats.verdicts import CorrectParts, add_verdicts, ambiguous_caption
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study


def one_batch(kind: str, count: int = 12, noise: float = 0.0) -> SceneBatch:
    return next(batch_scenes(make_scenes(0, kind, count), noise, seed=0))


def accuracy(kind: str, routing: str, noise: float = 0.0) -> float:
    correct = [
        correct_parts(batch, parse(route_scenes(batch, ROUTINGS[routing]())[-1]))
        for batch in batch_scenes(make_scenes(0, kind, 20), noise, seed=0)
    ]
    return percent_correct(correct)["parts"]


def test_votes_are_poses_times_relations() -> None:
    batch = one_batch("crowded")
    vote = make_votes(batch).tensor()[:, 0]
    for part, kind in enumerate(batch.part_type.tolist()):
        for whole in range(2):
            expected = (batch.part_pose[:, part] @ RELATION[whole, kind]).flatten(1)
            torch.testing.assert_close(
                vote[:, part, whole::2], expected[:, None].expand_as(vote[:, part, ::2])
            )


def test_batches_hold_every_scene_and_its_truth() -> None:
    scenes = make_scenes(0, "crowded", 15)
    batches = list(batch_scenes(scenes, 0.0, seed=0))
    assert sum(len(batch.part_pose) for batch in batches) == 15
    for batch in batches:
        assert batch.part_type.tolist() == sorted(batch.part_type.tolist())
        member = batch.part_whole >= 0
        assert ((batch.whole_type >= 0) == member).all()
        assert (member.sum(1) == 8).all()


def test_noise_changes_poses_by_its_standard_deviation() -> None:
    pose = scene("single", seed=1).part_pose.repeat(200, 1, 1)
    noisy = add_noise(pose, 0.1, torch.Generator().manual_seed(0))
    moved = torch.linalg.inv(pose) @ noisy  # in units of the part
    assert moved[:, :2, 2].std() == pytest.approx(0.1, rel=0.15)
    assert torch.atan2(moved[:, 1, 0], moved[:, 0, 0]).std() == pytest.approx(0.1, rel=0.15)
    assert torch.equal(add_noise(pose, 0.0, torch.Generator()), pose)


@pytest.mark.parametrize("kind", KINDS)
def test_em_and_dynamic_routing_find_the_wholes_but_uniform_routing_does_not(kind: str) -> None:
    assert accuracy(kind, EM, 0.02) > 90
    assert accuracy(kind, DYNAMIC, 0.02) > 90
    assert accuracy(kind, UNIFORM, 0.02) < 50


def test_em_rejects_the_decoy_but_kmeans_does_not_decide() -> None:
    """By distance alone both interpretations are equally good: each keeps half of the contested parts."""
    batch = one_batch("ambiguous")
    em, kmeans = (
        decoy_share(batch, parse(route_scenes(batch, ROUTINGS[name]())[-1]).share) for name in (EM, KMEANS)
    )
    assert em.max() < 0.05
    torch.testing.assert_close(kmeans, torch.full_like(kmeans, 0.5), atol=0.05, rtol=0)


def test_contested_parts_agree_on_the_decoy() -> None:
    ambiguous = scene("ambiguous", seed=4)
    (batch,) = batch_scenes([ambiguous], 0.0, seed=0)
    inner = contested_parts(batch)[0] > 0
    agreed = batch.part_pose[0] @ RELATION[ambiguous.decoy_type[0], batch.part_type]
    assert inner.tolist() == [torch.allclose(each, ambiguous.decoy_pose[0]) for each in agreed]


@pytest.mark.parametrize("seed", range(6))
def test_nearest_parts_have_the_type_that_their_poses_imply(seed: int) -> None:
    """With only two parts in the image, they are nearest to each other, and their type is correct."""
    (batch,) = batch_scenes([scene("single", seed=seed)], 0.02, seed=0)
    assert correct_parts(batch, pair_nearest(batch)).all()


def example_results(**ambiguous: float) -> CorrectParts:
    """All parts correct with every routing, except for the given percentages in ambiguous scenes."""
    names = {"em": EM, "mixing": MIXING, "kmeans": KMEANS, "dynamic": DYNAMIC, "before": INITIAL}
    correct = {name: dict.fromkeys(KINDS, 100.0) for name in ROUTED}
    correct |= {name: {"single": 100.0, "crowded": 50.0, "ambiguous": 40.0} for name in UNROUTED}
    for key, share in ambiguous.items():
        correct[names[key]]["ambiguous"] = share
    return correct


DECOY = {name: [0.5, 0.1] for name in ROUTED}


@pytest.mark.parametrize(
    ("correct", "holds"),
    [
        (example_results(), [True, True, True]),
        (example_results(kmeans=45.0), [True, True, None]),
        (example_results(before=99.0), [None, None, False]),  # one part in a hundred is chance
        (example_results(em=60.0), [None, True, True]),
        (example_results(em=40.0), [False, None, None]),
        (example_results(em=30.0, mixing=40.0, kmeans=40.0, dynamic=40.0), [False, None, False]),
    ],
)
def test_verdicts_require_more_than_methods_without_routing(
    tmp_path: Path, correct: CorrectParts, holds: list[bool | None]
) -> None:
    study = Study(tmp_path, quick=True)
    add_verdicts(study, correct, DECOY, count=100)
    assert [each["holds"] for each in study.results()["verdicts"]] == holds


def test_routing_is_not_the_reason_if_initial_couplings_are_as_good(tmp_path: Path) -> None:
    study, correct = Study(tmp_path, quick=True), example_results()
    correct[INITIAL] = dict(correct[EM])
    add_verdicts(study, correct, DECOY, count=100)
    claim, routing, every = study.results()["verdicts"]
    assert (claim["holds"], routing["holds"], every["holds"]) == (None, False, False)
    assert "as good" in routing["sentence"]
    assert INITIAL in claim["sentence"]


def test_sentence_names_the_best_method_without_routing(tmp_path: Path) -> None:
    study, correct = Study(tmp_path, quick=True), example_results()
    correct[NEAREST]["ambiguous"] = 71.0
    add_verdicts(study, correct, DECOY, count=100)
    assert f"({NEAREST}) has 71.0 %" in study.results()["verdicts"][0]["sentence"]


@pytest.mark.parametrize(("share", "decides"), [(0.49, False), (0.02, True)])
def test_caption_depends_on_the_shares_of_the_decoy(share: float, decides: bool) -> None:
    text = ambiguous_caption({EM: [0.5, share], KMEANS: [0.5, share]})
    assert ("rejects the wrong interpretation" in text) is decides
    assert ("does not decide" in text) is not decides


def test_part_is_correct_only_with_its_partner_and_type_and_no_other_part() -> None:
    whole, kind = torch.tensor([[0, 0, -1]]), torch.tensor([[1, 1, -1]])
    batch = SceneBatch(torch.tensor([0, 1, 1]), torch.eye(3).repeat(1, 3, 1, 1), whole, kind)
    pair = torch.tensor([[[True, True, False], [True, True, False], [False, False, True]]])
    guess = pair_nearest(batch)._replace(together=pair, whole_type=torch.tensor([[1, 1, 0]]))
    assert correct_parts(batch, guess).tolist() == [[True, True, True]]
    assert correct_parts(batch, guess._replace(whole_type=torch.tensor([[0, 1, 0]]))).tolist() == [
        [False, True, True]
    ]
    assert not correct_parts(batch, guess._replace(together=torch.ones_like(pair))).any()


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    assert [each["holds"] for each in result["verdicts"]] == [True, None, None]
    numbers = result["numbers"]
    assert numbers[f"{EM}.ambiguous.parts"] > numbers[f"{KMEANS}.ambiguous.parts"] + 30
    assert numbers[f"{DYNAMIC}.crowded.parts"] > 90
    assert numbers[f"{NEAREST}.single.parts"] > 90
    assert result["recipes"]["scenes"]["routings"][DYNAMIC]["iterations"] == 3
    for name in ("trees", "ambiguous", "noise"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "report.html").is_file()

import json
from pathlib import Path

import pytest

from torchcaps.data import load
from torchcaps.data.datasets.norb import FAMILIAR
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.viewpoints import BASE, CAPS, NETWORKS, PUBLISHED, few_views, judge, recipe
from torchcaps.experiments.viewpoints_drawing import angle
from torchcaps.experiments.workbench.given import norb_like
from torchcaps.experiments.workbench.matching import Moment
from torchcaps.experiments.workbench.running import reproduce
from torchcaps.experiments.workbench.study import Study


@pytest.mark.parametrize("viewpoint", PUBLISHED)
def test_the_few_views_train_on_familiar_ones_and_test_on_others(viewpoint: str) -> None:
    options = {"viewpoint": viewpoint, "size": 4, **few_views(viewpoint)}
    seen = {}
    for split in ("train", "test_familiar", "test_novel"):
        seen[split] = set(load("toys", split, **options).metadata[viewpoint].tolist())
    assert seen["train"] == seen["test_familiar"] == set(FAMILIAR[viewpoint])
    assert seen["test_novel"]
    assert not seen["test_novel"] & seen["train"]


def test_familiar_angles_lie_together() -> None:
    assert sorted(angle("azimuth", code) for code in FAMILIAR["azimuth"]) == [-60, -40, -20, 0, 20, 40]
    assert sorted(angle("elevation", code) for code in FAMILIAR["elevation"]) == [30, 35, 40]


@pytest.mark.parametrize("quick", [True, False])
def test_networks_differ_in_nothing_but_themselves(tmp_path: Path, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    made = {name: recipe(study, "toys", "azimuth", name) for name in NETWORKS}
    assert len({json.dumps(each.to_table()["data"]) for each in made.values()}) == 1
    assert len({json.dumps(each.to_table()["training"]) for each in made.values()}) == 1
    assert made[CAPS].model != made[BASE].model


@pytest.mark.parametrize(
    ("ratios", "familiar", "holds"),
    [
        ((0.7, 0.75), 10.0, True),
        ((0.7, 0.9), 10.0, None),
        ((0.95, 0.99), 10.0, False),
        ((1.1, 1.2), 10.0, False),
        ((0.5, 0.5), 20.0, None),  # far worse on familiar views: nothing can be said
    ],
)
def test_the_verdict_follows_the_ratios(
    tmp_path: Path, ratios: tuple[float, float], familiar: float, holds: bool | None
) -> None:
    study = Study(tmp_path, quick=True)
    chosen = {
        viewpoint: {CAPS: Moment(1, familiar, 40.0 * ratio), BASE: Moment(1, 10.0, 40.0)}
        for viewpoint, ratio in zip(PUBLISHED, ratios)
    }
    judge(study, chosen)
    assert study.result()["verdicts"][0]["holds"] is holds


def test_toys_are_rendered_unless_smallnorb_was_given(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    given = tmp_path / "given" / "smallnorb"
    given.mkdir(parents=True)
    for kind in ("dat", "cat", "info"):
        (given / f"smallnorb-5x46789x9x18x6x2x96x96-training-{kind}.mat").touch()
    for folder, expected in (("empty", "toys"), ("given", "smallnorb")):
        study = Study(tmp_path / "study", quick=False, data_dir=str(tmp_path / folder))
        assert norb_like(study) == expected
    assert norb_like(Study(tmp_path / "study", quick=True, data_dir=str(tmp_path / "given"))) == "toys"


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("viewpoints"), tmp_path, quick=True)
    assert result["status"] == "ended"
    numbers = result["numbers"]
    for viewpoint in PUBLISHED:
        for name in (CAPS, BASE):
            assert numbers[f"{viewpoint}.{name}.familiar"] < 60, "chance is 80"
        difference = numbers[f"{viewpoint}.{CAPS}.familiar"] - numbers[f"{viewpoint}.{BASE}.familiar"]
        assert abs(difference) < 8, "compared where they are equally good on familiar views"
    for name in ("azimuths", "elevations", "courses", "by_view"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert "novel" in (tmp_path / "report.html").read_text(encoding="utf-8")

import json
from pathlib import Path
from typing import Any

import pytest

from torchcaps.data import load
from torchcaps.data.datasets.norb import FAMILIAR
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.viewpoints import images
from torchcaps.experiments.viewpoints.figures import STYLES, angle
from torchcaps.experiments.viewpoints.networks import (
    CAPSULES,
    CNN,
    EM,
    NETWORKS,
    PAPER,
    POOLED,
    QUICK_NETWORKS,
    make_recipe,
    view_options,
)
from torchcaps.experiments.viewpoints.verdicts import VIEWPOINTS, add_verdicts, any_capsules, judge
from torchcaps.models import create_model

# Toys from all 18 azimuths take seconds to draw.
BOTH = [pytest.param("azimuth", marks=pytest.mark.slow), "elevation"]


def few_views(viewpoint: str, *, quick: bool) -> dict[str, Any]:
    """The options of a form with tiny images, all angles of the viewpoint, and one of everything else."""
    options = {**view_options("toys", viewpoint, quick=quick), "size": 4, "lightings": (0,)}
    other = {"azimuth": "elevations", "elevation": "azimuths"}[viewpoint]
    return {**options, other: options[other][:1]}


@pytest.mark.parametrize("viewpoint", BOTH)
def test_no_toy_is_both_for_validation_and_for_tests(viewpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few = few_views(viewpoint, quick=True)
    monkeypatch.setattr(images, "view_options", lambda *_, **__: dict(few))
    views = {
        toys: images.load_views("toys", viewpoint, toys, quick=True, data_dir=None)
        for toys in ("train", "validation", "test")
    }
    names = {toys: [set(some.metadata["instance"].tolist()) for some in each] for toys, each in views.items()}
    assert all(familiar == novel for familiar, novel in names.values())
    (train, _), (validation, _), (test, _) = names.values()
    assert not train & validation | train & test | validation & test
    for each in views.values():
        familiar, novel = (set(some.metadata[viewpoint].tolist()) for some in each)
        assert familiar == set(FAMILIAR[viewpoint])
        assert novel
        assert not familiar & novel


@pytest.mark.parametrize("viewpoint", BOTH)
def test_the_full_form_has_ten_test_toys_and_all_angles(viewpoint: str) -> None:
    some = load("toys", "test_novel", viewpoint=viewpoint, **few_views(viewpoint, quick=False))
    assert len(some.metadata["instance"].unique()) == 10
    codes = set(range(0, 36, 2)) if viewpoint == "azimuth" else set(range(9))
    assert set(some.metadata[viewpoint].tolist()) == codes - set(FAMILIAR[viewpoint])


def test_familiar_angles_are_contiguous() -> None:
    assert sorted(angle("azimuth", code) for code in FAMILIAR["azimuth"]) == [-60, -40, -20, 0, 20, 40]
    assert sorted(angle("elevation", code) for code in FAMILIAR["elevation"]) == [30, 35, 40]


@pytest.mark.parametrize("quick", [True, False])
def test_recipes_differ_only_in_the_network_and_its_rate(quick: bool) -> None:
    recipes = [make_recipe("toys", "azimuth", name, quick=quick).to_table() for name in NETWORKS]
    for part in ("data", "training", "loss", "evaluation", "schedule"):
        assert len({json.dumps(recipe[part]) for recipe in recipes}) == 1, part
    assert len({json.dumps(recipe["model"]) for recipe in recipes}) == len(NETWORKS)
    assert set(QUICK_NETWORKS) | set(CAPSULES) <= set(NETWORKS) == set(STYLES)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_network_can_be_made(name: str) -> None:
    recipe = make_recipe("toys", "azimuth", name, quick=False)
    create_model(recipe.model.name, num_classes=5, in_channels=2, image_size=32, **recipe.model.options)


def errors(**changes: float) -> dict[str, float]:
    """Numbers of a study, all networks equal but for the changes of novel or familiar errors."""
    numbers = {
        f"{view}.{name}.{kind}": value
        for view in VIEWPOINTS
        for name in NETWORKS
        for kind, value in (("familiar", 4.0), ("novel", 20.0), ("validation_novel", 20.0))
    }
    return {**numbers, **{key.replace("__", "."): value for key, value in changes.items()}}


@pytest.mark.parametrize(
    ("ratios", "familiar", "holds"),
    [
        ((0.7, 0.75), 4.0, True),
        ((0.7, 0.9), 4.0, None),
        ((0.95, 0.99), 4.0, False),
        ((1.1, 1.2), 4.0, False),
        ((0.5, 0.5), 14.0, None),  # not equally good on familiar views: no verdict
    ],
)
def test_verdict_follows_the_ratios(ratios: tuple[float, float], familiar: float, holds: bool | None) -> None:
    numbers = errors()
    for viewpoint, each in zip(VIEWPOINTS, ratios):
        numbers |= {f"{viewpoint}.{PAPER}.novel": 20 * each, f"{viewpoint}.{PAPER}.familiar": familiar}
    assert judge(numbers)[0] is holds


def test_other_capsules_must_beat_average_pooling_too() -> None:
    key, chosen = f"azimuth.{EM}.novel", {f"azimuth.{EM}.validation_novel": 15.0}
    assert any_capsules(errors(), "azimuth", list(NETWORKS))[0] is False
    assert any_capsules({**errors(), **chosen, key: 14.0}, "azimuth", list(NETWORKS))[0] is True
    # The best on test toys does not count if another one is the best on validation toys.
    assert (
        any_capsules(
            {**errors(), f"azimuth.{EM}.validation_novel": 25.0, key: 14.0}, "azimuth", list(NETWORKS)
        )[0]
        is False
    )
    pooled = {**errors(), **chosen, key: 14.0, f"azimuth.{POOLED}.novel": 13.0}
    assert any_capsules(pooled, "azimuth", list(NETWORKS))[0] is None
    weak = {**pooled, f"azimuth.{EM}.familiar": 20.0}  # not as good on familiar views, so not counted
    assert any_capsules(weak, "azimuth", list(NETWORKS))[0] is False


def test_the_regime_is_judged(tmp_path: Path) -> None:
    for level, holds in ((4.0, True), (11.0, False)):
        study = Study(tmp_path, quick=True)
        study.numbers = {**errors(), f"azimuth.{CNN}.familiar": level}
        add_verdicts(study)
        assert study.results()["verdicts"][-1]["holds"] is holds


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("viewpoints"), tmp_path, quick=True)
    assert result["status"] == "ended"
    numbers = result["numbers"]
    for viewpoint in VIEWPOINTS:
        for name in QUICK_NETWORKS:
            assert numbers[f"{viewpoint}.{name}.familiar"] < 60, "random guessing has 80"
            assert 0 <= numbers[f"{viewpoint}.{name}.train_novel"] < 80
    for name in ("azimuths", "elevations", "epochs", "by_view"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert "novel" in (tmp_path / "report.html").read_text(encoding="utf-8")

from pathlib import Path

import pytest

from torchcaps.capsules import SQUASHES
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.squash import BASE, CLAIM, CLASS, FORMULAS, PRIMARY, judge, make_recipe, networks
from torchcaps.models import create_model
from torchcaps.models.capsnet import CapsNet


def test_every_squash_is_tried_at_each_level() -> None:
    assert set(FORMULAS) == set(SQUASHES)
    tried = networks()
    assert {level: {kind for each, kind in tried if each == level} for level in (PRIMARY, CLASS)} == {
        PRIMARY: set(SQUASHES),
        CLASS: set(SQUASHES),
    }
    assert len(set(tried.values())) == 2 * len(SQUASHES) - 1, "the network of the paper is trained once"


@pytest.mark.parametrize("quick", [True, False])
def test_networks_differ_in_their_squash_alone(tmp_path: Path, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    recipes = {key: make_recipe(study, network) for key, network in networks().items()}
    for part in ("data", "loss", "optimizer", "schedule", "training", "seed"):
        assert len({repr(getattr(recipe, part)) for recipe in recipes.values()}) == 1, part
    for (level, kind), recipe in recipes.items():
        assert recipe.data.val_fraction > 0
        model = create_model("capsnet_small", image_size=20, **recipe.model.options)
        assert isinstance(model, CapsNet)
        found = {PRIMARY: model.primary.squash, CLASS: model.classes.routing.squash}
        assert found == {PRIMARY: BASE, CLASS: BASE, level: kind}


@pytest.mark.parametrize(("half", "base", "holds"), [(2.0, 3.0, True), (2.9, 3.0, False), (3.0, 2.0, False)])
def test_verdict_needs_more_than_chance(half: float, base: float, holds: bool) -> None:
    numbers = {"class.half.error": half, "class.hinton.error": base, "primary.half.error": 2.5}
    assert judge({**numbers, "images": 10_000})[0] is holds


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    numbers = result["numbers"]
    assert numbers[f"{PRIMARY}.{BASE}.error"] == numbers[f"{CLASS}.{BASE}.error"] < 10
    assert numbers["primary.none.child"] > numbers["primary.hinton.child"], "nothing shortens these vectors"
    assert len(result["verdicts"]) == 3
    for name in ("squashes", "errors"):
        assert (tmp_path / f"{name}.png").is_file()

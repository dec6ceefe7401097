from pathlib import Path

import pytest

from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.reconstruction import (
    CLAIM,
    MASKED,
    MASKED_1,
    NETWORKS,
    NONE,
    NONE_1,
    UNMASKED,
    judge,
    load_test_images,
    make_recipe,
)


@pytest.mark.parametrize("quick", [True, False])
def test_networks_differ_in_their_decoder_alone(tmp_path: Path, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    recipes = {name: make_recipe(study).override(changes) for name, changes in NETWORKS.items()}
    for part in ("data", "optimizer", "schedule", "training", "seed"):
        assert len({repr(getattr(recipe, part)) for recipe in recipes.values()}) == 1, part
    weights = {name: recipe.loss.reconstruction for name, recipe in recipes.items()}
    assert weights[NONE] == weights[NONE_1] == 0
    assert weights[MASKED] == weights[UNMASKED] == weights[MASKED_1] > 0
    assert quick or weights[MASKED] == 0.0005, "as in the paper"
    assert recipes[UNMASKED].model.options["masked"] is False


def test_moved_digits_have_the_size_of_the_networks(tmp_path: Path) -> None:
    test, moved = load_test_images(Study(tmp_path, quick=True))
    assert moved.images.shape == test.images.shape
    assert moved.labels.equal(test.labels)
    assert not moved.images.equal(test.images)
    # Hardly any ink is cut off: scales are 0.8 to 1.2 in both directions, 1.0 on average.
    ink = moved.images.float().sum() / test.images.float().sum()
    assert 0.9 < float(ink) < 1.1


@pytest.mark.parametrize(("masked", "none", "holds"), [(2.0, 3.0, True), (2.9, 3.0, False)])
def test_verdict_needs_more_than_chance(masked: float, none: float, holds: bool) -> None:
    errors = {MASKED: masked, NONE: none, MASKED_1: 3.0, NONE_1: 3.0}
    assert judge({f"{name}.error": error for name, error in errors.items()} | {"images": 10_000})[0] is holds


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    numbers = result["numbers"]
    for name in NETWORKS:
        assert numbers[f"{name}.error"] < 10
        assert numbers[f"{name}.bim"] <= numbers[f"{name}.fgsm"] + 3, "many steps are the stronger attack"
    assert len(result["verdicts"]) == 4
    for name in ("measures", "reconstructions"):
        assert (tmp_path / f"{name}.png").is_file()

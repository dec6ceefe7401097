from pathlib import Path

import pytest

from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.iterations import ADVISED, CLAIM, ITERATIONS, MOST, judge, load_images, make_recipe


@pytest.mark.parametrize("quick", [True, False])
def test_networks_differ_in_iterations_alone(tmp_path: Path, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    recipes = [make_recipe(study, count) for count in ITERATIONS]
    for part in ("data", "loss", "optimizer", "schedule", "training", "seed"):
        assert len({repr(getattr(recipe, part)) for recipe in recipes}) == 1, part
    assert [recipe.model.options["iterations"] for recipe in recipes] == list(ITERATIONS)
    assert not recipes[0].data.preprocess, "augmentation would hide over-fitting"


def test_training_loss_is_that_of_the_images_trained_on(tmp_path: Path) -> None:
    recipe = make_recipe(Study(tmp_path, quick=True), 3)
    train, test = load_images(Study(tmp_path, quick=True), recipe)
    assert len(train) == recipe.data.limit
    other, _ = load_images(Study(tmp_path, quick=True, seed=1), recipe)
    assert not train.images.equal(other.images), "another seed trains on other images"
    assert len(test) == 355


@pytest.mark.parametrize(
    ("train", "test", "one", "holds"),
    [
        ((0.010, 0.005), (0.05, 0.06), 6.0, True),
        ((0.010, 0.005), (0.05, 0.06), 5.1, None),  # over-fits, but three are no better than one
        ((0.010, 0.010), (0.05, 0.06), 6.0, None),  # worse on test images without a better fit
        ((0.010, 0.020), (0.05, 0.06), 6.0, False),  # worse on both is not over-fitting
        ((0.010, 0.005), (0.05, 0.05), 6.0, False),
    ],
)
def test_verdict_on_over_fitting(
    train: tuple[float, float], test: tuple[float, float], one: float, holds: bool | None
) -> None:
    numbers = {"images": 10_000.0}
    for count, a, b in zip((1, ADVISED, MOST), (0.02, *train), (0.05, *test)):
        numbers |= {f"{count}.train_loss": a, f"{count}.test_loss": b, f"{count}.ratio": b / a}
        numbers[f"{count}.test_error"] = one if count == 1 else 5.0
    assert judge(numbers)[0] is holds


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    numbers = result["numbers"]
    for count in (1, ADVISED, MOST):
        assert numbers[f"{count}.train_loss"] < numbers[f"{count}.test_loss"]
        assert numbers[f"{count}.test_error"] < 20
    assert (tmp_path / "losses.png").is_file()

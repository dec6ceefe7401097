from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.framework.figures import BLUE, GRAY, ORANGE, add_axes, new_figure
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.statistics import chance_margin
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.models.weights import load_weights
from torchcaps.training import Recipe, default_recipe, evaluate
from torchcaps.training.data import load_splits

ITERATIONS, QUICK_ITERATIONS = (1, 2, 3, 4, 5, 6, 8, 10), (1, 3, 10)
ADVISED, MOST = 3, 10
# A loss is higher or lower than another if it differs by at least this share.
CLEAR = 0.05
ERRORS = ("train_error", "test_error")
KEYS = ("train_loss", "test_loss", "ratio", "test_error")


def run(study: Study) -> None:
    """Train one network for each number of iterations, to the end, and compare training with test images."""
    results: dict[int, dict[str, float]] = {}
    count = 0
    for iterations in QUICK_ITERATIONS if study.quick else ITERATIONS:
        name, recipe = f"r = {iterations}", make_recipe(study, iterations)
        study.train(name, recipe, keep_epochs=True)
        train, test = load_images(study, recipe)
        count = len(test)
        results[iterations] = study.cached(
            f"losses of {name}", partial(measure, study, name, recipe, train, test)
        )
        for key, value in results[iterations].items():
            study.add_number(f"{iterations}.{key}", value)
    study.add_number("images", count)
    recipe = make_recipe(study, ADVISED)
    study.add_table(
        "Trained and tested with r iterations",
        [
            "iterations r",
            "training loss",
            "test loss",
            "test loss / training loss",
            "training error (%)",
            "test error (%)",
        ],
        [
            [iterations, *(each[key] for key in ("train_loss", "test_loss", "ratio", *ERRORS))]
            for iterations, each in results.items()
        ],
        caption=f"Margin loss and error after {recipe.training.epochs} epochs on the same training images, "
        "without augmentation and without reconstruction, both of which would hide over-fitting. The last "
        f"epoch is tested, whatever the validation images say. {count:,} test images.",
    )
    draw_losses(study, results)
    add_verdicts(study, results, count)


def make_recipe(study: Study, iterations: int) -> Recipe:
    """A small network on few images, seen many times, so that it can over-fit."""
    changes = [f"model.options.iterations={iterations}", "model.options.channels=32"]
    changes += ["data.preprocess={}", "loss.reconstruction=0.0", "training.ema_decay=0.98"]
    if study.quick:
        changes += ["data.options.size=20", "data.limit=300", "data.val_fraction=0.1"]
        changes += ["training.epochs=24", "training.batch_size=32", "optimizer.lr=2e-3"]
        return default_recipe("capsnet_small", "digits").override(changes)
    changes += ["data.limit=3000", "data.val_fraction=0.01"]
    changes += ["training.epochs=20", "training.batch_size=64"]
    return default_recipe("capsnet_small", "mnist").override(changes)


def load_images(study: Study, recipe: Recipe) -> tuple[ImageSet, ImageSet]:
    """The images that the network was trained on, and the test images."""
    if not study.quick and study.data_dir is not None:
        recipe = recipe.override([f'data.dir="{study.data_dir}"'])
    splits = load_splits(recipe.data, recipe.seed + study.seed)
    assert isinstance(splits.train, ImageSet)
    assert isinstance(splits.test, ImageSet)
    return splits.train, splits.test


def measure(study: Study, name: str, recipe: Recipe, train: ImageSet, test: ImageSet) -> dict[str, float]:
    """Loss and error of the last epoch, on training and on test images."""
    model, _ = load_weights(study.epoch_paths(name)[-1])
    preprocess = Preprocess.from_options(recipe.data.preprocess)
    results: dict[str, float] = {}
    for part, images in (("train", train), ("test", test)):
        evaluation = evaluate(model, images, preprocess, loss=recipe.loss)
        assert evaluation.loss is not None
        results |= {f"{part}_loss": evaluation.loss, f"{part}_error": 100 * evaluation.error}
    return results | {"ratio": results["test_loss"] / results["train_loss"]}


def judge(numbers: Mapping[str, float]) -> tuple[bool | None, str]:
    """Whether ten iterations fit the training images better than three, and the test images worse.

    In part where that is all: three are best if one iteration has more errors too.
    """
    one, few, many = ({key: numbers[f"{count}.{key}"] for key in KEYS} for count in (1, ADVISED, MOST))
    fits = many["train_loss"] < (1 - CLEAR) * few["train_loss"]
    worse = many["test_loss"] > (1 + CLEAR) * few["test_loss"]
    margin = chance_margin(one["test_error"], few["test_error"], int(numbers["images"]))
    best = fits and one["test_error"] - few["test_error"] > margin
    over_fits = many["ratio"] > (1 + CLEAR) * few["ratio"]
    return (
        False if not worse else True if best else None if over_fits else False,
        f"The test error is {percent(one['test_error'])} with one iteration, which is uniform coupling, "
        f"{percent(few['test_error'])} with {ADVISED} and {percent(many['test_error'])} with {MOST}. From "
        f"{ADVISED} to {MOST} the training loss goes from {few['train_loss']:.4f} to "
        f"{many['train_loss']:.4f} and the test loss from {few['test_loss']:.4f} to {many['test_loss']:.4f}. "
        f"(Criterion: a training loss lower and a test loss higher by {percent(100 * CLEAR)} or more, which "
        f"is over-fitting, and more errors with one iteration than with {ADVISED}. In part: over-fitting "
        "alone.)",
    )


def add_verdicts(study: Study, results: Mapping[int, Mapping[str, float]], count: int) -> None:
    """Whether three iterations are better than one."""
    one, three = results[1]["test_error"], results[ADVISED]["test_error"]
    study.add_verdict(
        one - three > chance_margin(one, three, count),
        f"The test error is {percent(one)} with one iteration, which is uniform coupling, and "
        f"{percent(three)} with three. (Criterion: lower by more than two standard errors.)",
        question="Are three iterations better than one?",
    )


def draw_losses(study: Study, results: Mapping[int, Mapping[str, float]]) -> None:
    """Draw losses and errors against the number of iterations."""
    figure = new_figure(7.6, 3.2)
    left, right = add_axes(figure, 1, 2)
    counts = list(results)
    style: dict[str, Any] = {"marker": "o", "markersize": 4}
    for part, color in (("train", GRAY), ("test", BLUE)):
        name = "training" if part == "train" else "test"
        losses = [results[count][f"{part}_loss"] for count in counts]
        left.plot(counts, losses, color=color, label=f"{name} images", **style)
    left.set(xlabel="iterations", title="margin loss", yscale="log")
    left.legend(fontsize=8)
    right.plot(counts, [results[count]["test_error"] for count in counts], color=ORANGE, **style)
    right.set(xlabel="iterations", title="test error (%)")
    study.add_figure(
        "losses",
        figure,
        caption="Each point is a network that was trained and tested with so many iterations. Over-fitting "
        "would show as a training loss that falls and a test loss that rises to the right.",
    )


CLAIM = Claim(
    name="iterations",
    claim="more routing iterations over-fit: three are best",
    source="Sabour, Frosst, Hinton, “Dynamic Routing Between Capsules” (2017), section 4 and appendix; "
    "tutorials repeat it",
    data="MNIST, 3,000 training images",
    quick_data="scikit-learn's digits, 300 training images",
    minutes=15,
    run=run,
    judge=judge,
    published="the paper recommends 3 iterations and gives no numbers for others than 1 and 3",
)

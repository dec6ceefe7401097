from __future__ import annotations

import torch

from torchcaps.data import load
from torchcaps.data.datasets.affine_mnist import transform_set
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.framework.figures import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    add_axes,
    image_grid,
    new_figure,
)
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.statistics import (
    EpochErrors,
    common_error,
    comparable,
    epoch_at_error,
    errors_by_epoch,
    significantly_higher,
)
from torchcaps.experiments.framework.study import Claim, Study, count_parameters
from torchcaps.training import Recipe, load_recipe, load_weights

CAPSULES, UNIFORM, CNN = "capsules, dynamic routing", "capsules, uniform coupling", "CNN"
COLORS = {CAPSULES: BLUE, UNIFORM: GREEN, CNN: ORANGE}
# Accuracy on moved and on transformed digits, in percent.
PUBLISHED = {CAPSULES: (99.23, 79.0), CNN: (99.22, 66.0)}
# The quick form has few test digits, so each of them is transformed this many times.
PER_DIGIT = 4


def run(study: Study) -> None:
    """Train on moved digits, and test on affine transformations where all networks are equally good."""
    moved, transformed = load_test_images(study)
    draw_images(study, moved, transformed)
    runs = {}
    for name in COLORS:
        recipe = make_recipe(study, name)
        study.train(name, recipe, keep_epochs=True)
        preprocess = Preprocess.from_options(recipe.data.preprocess)
        runs[name] = errors_by_epoch(study, name, moved, transformed, preprocess)
    error = common_error([runs[name] for name in (CAPSULES, CNN)])
    chosen = {name: epoch_at_error(epochs, error) for name, epochs in runs.items()}
    add_table(study, chosen, moved, transformed)
    draw_epochs(study, runs, chosen, error)
    # Transformations of the same digit are not independent, so chance is counted over digits.
    add_verdicts(study, chosen, len(transformed) // (PER_DIGIT if study.quick else 1))


def make_recipe(study: Study, name: str) -> Recipe:
    """A network on moved digits; the CNN has about as many parameters as the capsules without decoder."""
    recipe = load_recipe("multimnist-cnn" if name == CNN else "mnist-capsnet-small")
    source = "digits" if study.quick else "mnist"
    changes = [f'data={{name="affine_mnist", options={{source="{source}"}}}}']
    # With a constant learning rate every epoch is a fair point to stop; the moving average reduces noise.
    changes += ['optimizer={name="adam", lr=1e-3}', 'schedule={name="constant"}']
    changes += ["training={epochs=5, batch_size=128, ema_decay=0.999}"]
    if name == UNIFORM:
        changes += ['model.options.routing="uniform"']
    if name == CNN:
        changes += ["model.options={channels=[32, 32, 8], hidden=[136, 64]}"]
    recipe = recipe.override(changes)
    if not study.quick:
        return recipe
    small = ["model.options.channels=32", "model.options.decoder=[32, 64]"]
    if name == CNN:
        small = ["model.options={channels=[16, 16, 8], hidden=[64, 32]}"]
    shorter = ["data.preprocess.resize=24", "training.batch_size=32", "training.ema_decay=0.98"]
    return recipe.override([*small, *shorter, "data.options.per_image=2", "training.epochs=10"])


def load_test_images(study: Study) -> tuple[ImageSet, ImageSet]:
    """Test digits that are only moved, as in training, and test digits with an affine transformation."""
    if study.quick:
        single, per_image = load("digits", "test", size=28), PER_DIGIT
    else:
        single, per_image = load("mnist", "test", data_dir=study.data_dir), 1
    seed = study.seed + 1
    moved, transformed = (transform_set(single, per_image, seed, moved_only=only) for only in (True, False))
    return moved, transformed


def add_table(study: Study, chosen: dict[str, EpochErrors], moved: ImageSet, transformed: ImageSet) -> None:
    """The table of accuracies, where networks are equally good on moved digits."""
    rows: list[list[object]] = []
    for name, errors in chosen.items():
        model, _ = load_weights(study.epoch_paths(name)[errors.epoch - 1])
        rows.append([name, 100 - errors.familiar, 100 - errors.novel, errors.epoch, count_parameters(model)])
        study.add_number(f"{name}.moved", 100 - errors.familiar)
        study.add_number(f"{name}.affine", 100 - errors.novel)
    published: list[list[object]] = [
        [f"paper: {name}", *accuracies, None, None] for name, accuracies in PUBLISHED.items()
    ]
    study.add_table(
        "Equally good on moved digits, tested on affine transformations",
        ["network", "moved, correct (%)", "transformed, correct (%)", "epochs", "parameters"],
        rows + published,
        caption="All networks were trained on digits at random positions in an image of 40×40. Each one is "
        "taken from the epoch at which it is as good on such digits as the weaker of capsules and CNN is at "
        f"the end, and tested on {len(transformed):,} digits that are also rotated, sheared and scaled "
        f"({len(moved):,} digits that are only moved). The parameters of capsules include their decoder. "
        "Shaded: numbers of the paper, on affNIST.",
        marked=range(len(rows), len(rows) + len(published)),
    )


def draw_images(study: Study, moved: ImageSet, transformed: ImageSet, count: int = 7) -> None:
    """Draw digits as in training, and with an affine transformation."""
    chosen = torch.linspace(0, len(moved) - 1, count).long()
    images = torch.stack([each.images[chosen, 0] for each in (moved, transformed)]).numpy() / 255
    study.add_figure(
        "digits",
        image_grid(images, rows=["moved", "transformed"], cell=0.8),
        caption="Test digits that are only moved, like all training digits, and the same digits also rotated "
        "by up to 20°, sheared and scaled, which no network was trained on.",
    )


def draw_epochs(
    study: Study, runs: dict[str, list[EpochErrors]], chosen: dict[str, EpochErrors], error: float
) -> None:
    """Draw the accuracy on transformed digits against that on moved digits, epoch by epoch."""
    figure = new_figure(5.6, 4.2)
    ax = add_axes(figure)[0]
    for name, epochs in runs.items():
        points = [(100 - errors.familiar, 100 - errors.novel) for errors in epochs]
        ax.plot(*zip(*points), marker="o", markersize=4, color=COLORS[name], label=name)
        point = 100 - chosen[name].familiar, 100 - chosen[name].novel
        ax.plot(*point, "o", markersize=11, markerfacecolor="none", markeredgecolor=COLORS[name])
    ax.axvline(100 - error, color=GRAY, linewidth=0.8, linestyle=":")
    ax.set(xlabel="moved digits, correct (%)", ylabel="transformed digits, correct (%)")
    ax.legend(fontsize=8, loc="upper left", frameon=False)
    study.add_figure(
        "epochs",
        figure,
        caption="Each point is one epoch; training goes from left to right. At the dotted line the networks "
        "are equally good on moved digits. The circles are the models that are compared: a higher circle is "
        "better on transformed digits.",
    )


def add_verdicts(study: Study, chosen: dict[str, EpochErrors], count: int) -> None:
    """Compare capsules with the CNN, and with uniform coupling.

    Args:
        study: gets the verdicts.
        chosen: errors of the models that are compared.
        count: test digits, for the margin of chance.
    """
    correct = {name: 100 - errors.novel for name, errors in chosen.items()}
    moved = {name: 100 - errors.familiar for name, errors in chosen.items()}
    sentence = (
        f"With {percent(moved[CAPSULES])} and {percent(moved[CNN])} correct on moved digits, capsules have "
        f"{percent(correct[CAPSULES])} correct on transformed digits and the CNN {percent(correct[CNN])}. In "
        "the paper it is 79 % and 66 %."
    )
    if comparable(chosen[CAPSULES], chosen[CNN]):
        study.add_verdict(significantly_higher(correct[CAPSULES], correct[CNN], count), sentence)
    else:
        study.add_verdict(
            None, sentence + " They are not equally good on moved digits, so this comparison is not reliable."
        )
    sentence = (
        f"With uniform coupling, which ignores agreement, capsules have {percent(correct[UNIFORM])} correct "
        f"({percent(moved[UNIFORM])} on moved digits)."
    )
    if comparable(chosen[CAPSULES], chosen[UNIFORM]):
        routed = significantly_higher(correct[CAPSULES], correct[UNIFORM], count)
        study.add_verdict(routed, sentence, question="Is routing the reason?")
    else:
        study.add_text(
            sentence
            + " They are not equally good on moved digits as with routing, so there is no verdict on "
            "routing here."
        )


CLAIM = Claim(
    name="affine",
    claim="capsules are more robust to affine transformations than a CNN that is equally good without them",
    source="Sabour, Frosst, Hinton, “Dynamic routing between capsules” (2017), section 5.2",
    data="MNIST",
    quick_data="scikit-learn's digits",
    minutes=45,
    run=run,
)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.data import load
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.adversarial.figures import draw_curves, draw_images
from torchcaps.experiments.adversarial.measurements import PANELS, PreprocessedModel, measure_network
from torchcaps.experiments.adversarial.verdicts import CAPSULES, CNN, UNROUTED, Results, add_verdicts
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.models import Model
from torchcaps.training import Recipe, default_recipe, load_recipe

SURROGATE = "another CNN"


def run(study: Study) -> None:
    """Train all networks, then attack each of them at every ε."""
    images, labels, classes = load_test_images(study)
    networks = {name: load_network(study, name, images) for name in (CAPSULES, UNROUTED, CNN, SURROGATE)}
    surrogate = networks.pop(SURROGATE)
    results = {
        name: measure_network(study, name, model, surrogate, images, labels)
        for name, model in networks.items()
    }
    guessing = 100 / len(classes)
    add_table(study, results, guessing)
    draw_curves(study, results, guessing)
    draw_images(study, networks, images, labels, classes)
    add_verdicts(study, results, guessing)


def make_recipe(study: Study, name: str) -> Recipe:
    """How a network is trained."""
    capsules = name in (CAPSULES, UNROUTED)
    model = "matrix_capsnet_small" if capsules else "norb_cnn"
    # EM with one iteration has uniform coupling: capsules without routing.
    changes = ["model.options.iterations=1"] if name == UNROUTED else []
    changes += ["seed=1"] if name == SURROGATE else []
    if study.quick:
        # At 17×17 every pixel is in some receptive field, so that no gradient is 0 for that reason. Without
        # routing capsules learn more slowly, but an epoch takes less time.
        epochs = {CAPSULES: 10, UNROUTED: 20}.get(name, 6)
        changes += ["data.options.size=17", f"training.epochs={epochs}", "training.batch_size=32"]
        changes += ["training.ema_decay=0.98", 'schedule.name="cosine"']
        return default_recipe(model, "digits").override(changes)
    return load_recipe("toys-matrix-capsnet-small" if capsules else "toys-norb-cnn").override(changes)


def load_network(study: Study, name: str, images: Tensor) -> Model:
    """A trained network that takes images without preprocessing."""
    recipe = make_recipe(study, name)
    pretrained = name == CAPSULES and not study.quick
    model = study.pretrained_or_train(name, recipe) if pretrained else study.train(name, recipe)
    image_size = images.shape[2], images.shape[3]
    return PreprocessedModel(model, Preprocess.from_options(recipe.data.preprocess), image_size).eval()


def load_test_images(study: Study) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """The images to attack, `[N, C, H, W]` in 0..1, their labels `[N]`, and the names of the classes."""
    if study.quick:
        images, count = load("digits", "test", size=17), 100
    else:
        images, count = load("toys", "test", size=48, data_dir=study.data_dir), 500
    images = images.select(torch.arange(count))
    return images.images.float() / 255, images.labels, images.classes


def add_table(study: Study, results: Results, guessing: float) -> None:
    """The table, at an ε at which all attacks were run."""
    index = 1
    epsilon = results[CAPSULES]["epsilon"][index]
    rows: list[list[Any]] = []
    for name, result in results.items():
        attacks = [result[kind][index] for kind in ("fgsm", "bim", "pgd", "targeted", "transfer")]
        rows.append([name, result["clean"], *attacks, result["zero_pixels"], result["zero_images"]])
        for kind in ("clean", "zero_pixels", "zero_images"):
            study.add_number(f"{name}.{kind}", result[kind])
        for kind in (*PANELS, "pgd"):
            for size, value in zip(result["epsilon"], result[kind]):
                if value is not None:
                    study.add_number(f"{name}.{kind}.{size}", value)
    published = [
        ["paper: capsules", None, "≥ guessing", None, None, None, "like the CNN", None, None],
        ["paper: CNN", None, "< guessing", None, None, None, None, None, None],
    ]
    study.add_table(
        f"Results under attack, ε = {epsilon}",
        [
            "network",
            "unchanged (%)",
            "FGSM (%)",
            "BIM (%)",
            "PGD (%)",
            "targeted FGSM, success (%)",
            "black box (%)",
            "zero gradients, pixels (%)",
            "zero gradients, images (%)",
        ],
        rows + published,
        caption="Accuracy when each pixel may change by ε, where pixels are from 0 to 1; random guessing has "
        f"{percent(guessing)}. Targeted FGSM: how often the network chooses a given wrong class, mean over "
        "classes. Black box: the images were changed to attack another CNN. Zero gradients: percentage of "
        "pixels whose gradient is exactly 0, and of images in which all are, so that an attack has no "
        "direction to follow; a few pixels at the border can be outside of all receptive fields. Shaded: "
        "Figure 3 of the paper, on smallNORB, in words.",
        marked=[len(rows), len(rows) + 1],
    )


CLAIM = Claim(
    name="adversarial",
    claim="capsules are more robust to white-box adversarial attacks than a CNN",
    source="Hinton, Sabour, Frosst, “Matrix capsules with EM routing” (2018), Figure 3",
    data="rendered toys (made on first use)",
    quick_data="scikit-learn's digits",
    minutes=60,
    run=run,
)

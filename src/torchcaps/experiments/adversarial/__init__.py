from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchcaps.data import load
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.adversarial.figures import COLORS, draw_curves, draw_images
from torchcaps.experiments.adversarial.measurements import (
    PANELS,
    PreprocessedModel,
    measure_network,
    measure_transfer,
    strength,
)
from torchcaps.experiments.adversarial.verdicts import (
    CAPSULES,
    CNN,
    DENSE,
    FROM_OTHER,
    POOLED,
    SELF_ROUTING,
    UNROUTED,
    Results,
    add_verdicts,
    judge,
)
from torchcaps.experiments.framework.data import use_norb_data
from torchcaps.experiments.framework.formatting import percent, small_number
from torchcaps.experiments.framework.networks import toy_capsnet, toy_cnn, toy_options
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.models import Model
from torchcaps.training import Recipe, default_recipe

SURROGATE = "another CNN"
# Model and options of the networks on the trunk of self-routing.
HEADS = {
    SELF_ROUTING: ("capsule_head", 'backbone="conv6", routing="self_routing", types=16'),
    POOLED: ("pooled_trunk", 'backbone="conv6"'),
    DENSE: ("dense_trunk", 'backbone="conv6"'),
}


def run(study: Study) -> None:
    """Train all networks, then attack each of them at every ε."""
    data = use_norb_data(study)
    images, labels, classes = load_test_images(study, data)
    networks = {name: load_network(study, name, data, images) for name in (*COLORS, SURROGATE)}
    surrogate = networks.pop(SURROGATE)
    results = {
        name: measure_network(study, name, model, surrogate, images, labels)
        for name, model in networks.items()
    }
    for source, target in ((CNN, CAPSULES), (CAPSULES, CNN)):
        step = partial(
            measure_transfer, networks[source], networks[target], images, labels, results[CNN]["epsilon"]
        )
        results[target][FROM_OTHER] = study.cached(f"{target} attacked through {source}", step)["accuracy"]
    guessing, count = 100 / len(classes), strength(study).images
    study.add_number("images", len(labels))
    add_table(study, results, guessing)
    draw_curves(study, results, guessing)
    draw_images(study, networks, images, labels, classes)
    add_verdicts(study, results, guessing, min(count, len(labels)))


def make_recipe(study: Study, name: str, data: str) -> Recipe:
    """How a network is trained."""
    if name in HEADS:
        model, options = HEADS[name]
        head = [f'model={{name="{model}", options={{{options}}}}}', "optimizer.lr=2e-3"]
        if study.quick:
            return default_recipe(model, "digits").override([*head, *quick_changes(6)])
        return toy_cnn(data).override([*head, 'loss={name="cross_entropy"}'])
    capsules = name in (CAPSULES, UNROUTED)
    # EM with one iteration has uniform coupling: capsules without routing.
    iterations = 1 if name == UNROUTED else 2
    changes = ["seed=1"] if name == SURROGATE else []
    if not study.quick:
        return (toy_capsnet(data, iterations) if capsules else toy_cnn(data)).override(changes)
    changes += [f"model.options.iterations={iterations}"] if name == UNROUTED else []
    # Without routing capsules learn more slowly, but an epoch takes less time.
    epochs = {CAPSULES: 10, UNROUTED: 20}.get(name, 6)
    model = "matrix_capsnet_small" if capsules else "norb_cnn"
    return default_recipe(model, "digits").override([*changes, *quick_changes(epochs)])


def quick_changes(epochs: int) -> list[str]:
    """Small images and short training; at 17×17 every pixel is in some receptive field."""
    changes = ["data.options.size=17", f"training.epochs={epochs}", "training.batch_size=32"]
    return [*changes, "training.ema_decay=0.98", 'schedule.name="cosine"']


def load_network(study: Study, name: str, data: str, images: Tensor) -> Model:
    """A trained network that takes images without preprocessing."""
    recipe = make_recipe(study, name, data)
    model = study.train(name, recipe)
    image_size = images.shape[2], images.shape[3]
    return PreprocessedModel(model, Preprocess.from_options(recipe.data.preprocess), image_size).eval()


def load_test_images(study: Study, data: str) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """The images to attack, `[N, C, H, W]` in 0..1, their labels `[N]`, and the names of the classes."""
    if study.quick:
        images, count = load("digits", "test", size=17), 100
    else:
        images, count = load(data, "test", data_dir=study.data_dir, **toy_options(data)), 500
    # Test toys are in an order; the sample is the same for every seed.
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    images = images.select(order[:count])
    return images.images.float() / 255, images.labels, images.classes


def add_table(study: Study, results: Results, guessing: float) -> None:
    """The table, at the ε at which all attacks were run, and all numbers."""
    index = 1
    epsilon = results[CAPSULES]["epsilon"][index]
    once = ("clean", "pgd", "pgd_logits", "zero_pixels", "zero_images", "gradient")
    rows: list[list[Any]] = []
    for name, result in results.items():
        many = [result[kind][index] for kind in ("fgsm", "bim")]
        far = [result["targeted"][index], result["transfer"][index]]
        other = result[FROM_OTHER][index] if FROM_OTHER in result else None
        strongest = [result["pgd"], result["pgd_logits"]]
        rows.append([name, result["clean"], *many, *strongest, *far, other])
        for kind in once:
            study.add_number(f"{name}.{kind}", result[kind])
        for kind in (*PANELS, *([FROM_OTHER] if FROM_OTHER in result else [])):
            for size, value in zip(result["epsilon"], result[kind]):
                study.add_number(f"{name}.{kind}.{size}", value)
    unknown = [None] * 4
    published = [
        ["paper: capsules", None, "≥ guessing", *unknown, "like the CNN", None],
        ["paper: CNN", None, "< guessing", *unknown, None, None],
    ]
    tries = strength(study)
    study.add_table(
        f"Results under attack, ε = {epsilon} ({255 * epsilon:.3g} of 255 gray levels)",
        [
            "network",
            "unchanged (%)",
            "FGSM (%)",
            "BIM (%)",
            "PGD (%)",
            "PGD on logits (%)",
            "targeted FGSM, success (%)",
            "black box (%)",
            "through the other (%)",
        ],
        rows + published,
        caption="Accuracy when each pixel may change by ε, where pixels are from 0 to 1; random guessing has "
        f"{percent(guessing)}. PGD starts from {tries.restarts} random points and takes {tries.steps} steps "
        f"from each, on the first {tries.images} images; on logits it follows the lead of the strongest "
        "wrong class instead of the cross-entropy. Targeted FGSM: how often the network chooses a given "
        "wrong class, mean over classes. Black box: the images were changed to attack another CNN. Through "
        "the other: they were changed by FGSM to attack the CNN, or for the CNN to attack capsules. "
        "Self-routing is on six convolutions with batch normalization, as are average pooling and the dense "
        "layer; EM routing, with two iterations, on one. All networks were trained equally long. Shaded: "
        "Figure 3 of the paper, on smallNORB, in words.",
        marked=[len(rows), len(rows) + 1],
    )
    study.add_table(
        "Gradients by the pixels",
        ["network", "exactly 0, pixels (%)", "exactly 0, whole images (%)", "median size"],
        [
            [name, each["zero_pixels"], each["zero_images"], small_number(each["gradient"])]
            for name, each in results.items()
        ],
        caption="Where a gradient is exactly 0 an attack has no direction to follow; a few pixels at the "
        "border can be outside of all receptive fields. Size: mean absolute gradient of the cross-entropy by "
        "a pixel, without scaling, median over images.",
    )


CLAIM = Claim(
    name="adversarial",
    claim="capsules are more robust to white-box adversarial attacks than a CNN",
    source="Hinton, Sabour, Frosst, “Matrix capsules with EM routing” (2018), Figure 3",
    data="smallNORB if its files are there, otherwise rendered toys",
    quick_data="scikit-learn's digits",
    minutes=55,
    run=run,
    judge=judge,
)

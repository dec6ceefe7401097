from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.framework.data import use_norb_data
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.networks import toy_capsnet, toy_options
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.vote_agreement.clusters import CASES, HISTOGRAMS, measure_votes
from torchcaps.experiments.vote_agreement.entries import diagonal_share, measure_entries
from torchcaps.experiments.vote_agreement.figures import draw_average, draw_examples
from torchcaps.experiments.vote_agreement.verdicts import ROUTED, UNIFORM, add_verdicts
from torchcaps.models import Model
from torchcaps.training import Recipe, default_recipe

ITERATIONS = {ROUTED: 3, UNIFORM: 1}
TEST_TOYS = 3000
ENTRY_IMAGES = 500  # the network is run once for every entry


def run(study: Study) -> None:
    """Measure the votes for the classes in a network with routing and in one without."""
    data = use_norb_data(study)
    images = load_test_images(study, data)
    recipes = {name: make_recipe(study, data, count) for name, count in ITERATIONS.items()}
    pixels = Preprocess.from_options(recipes[ROUTED].data.preprocess).test(images.images)
    networks = {
        name: study.train("routed" if name == ROUTED else "uniform", recipe)
        for name, recipe in recipes.items()
    }
    results: dict[str, dict[str, Any]] = {}
    for name, model in networks.items():
        measure = partial(measure_votes, model, pixels, images.labels)
        results[name] = study.cached(f"votes in {name}", measure)
        study.add_number(f"{name}.accuracy", results[name]["accuracy"])
    rows: list[list[Any]] = []
    for name, result in results.items():
        for case in CASES:
            count = result[case]["count"]
            for number, step in enumerate(result[case]["steps"], start=1):
                rows.append([f"{name}, {case}", count, number, step["own"], step["rival"], step["share"]])
                for key, value in step.items():
                    study.add_number(f"{name}.{case}.{number}.{key}", value)
    accuracies = " and ".join(f"{percent(each['accuracy'])} ({name})" for name, each in results.items())
    study.add_table(
        "How tight the clusters of votes are",
        [
            "network, images",
            "images",
            "iteration",
            "distance, true class",
            "distance, other class",
            "votes of the true class (%)",
        ],
        rows,
        caption="For correctly and wrongly classified images: mean distance of the votes from their mean for "
        "the true class and for the most active other class, weighted by assignment, in units of the mean "
        "length of a vote; and the share of all votes that is assigned to the true class. Iteration 1 has "
        f"uniform coupling. Test accuracy: {accuracies}.",
    )
    for kind in HISTOGRAMS:
        draw_average(study, results[ROUTED], kind)
    draw_examples(study, networks[ROUTED], images, pixels, results[ROUTED]["limits"]["clipped"])
    add_verdicts(study, results, len(images))
    add_entries(study, networks[ROUTED], pixels[:ENTRY_IMAGES], images.labels[:ENTRY_IMAGES])


def add_entries(study: Study, model: Model, pixels: Tensor, labels: Tensor) -> None:
    """The table of the entries of a pose, and whether the diagonal matters more, as an essay says."""
    result = study.cached("entries of the pose", partial(measure_entries, model, pixels, labels))
    accuracy, (whole,) = result["accuracy"], result["whole"]
    diagonal, others = diagonal_share(accuracy, whole)
    study.add_number("entries.diagonal", diagonal)
    study.add_number("entries.others", others)
    study.add_table(
        "Accuracy without an entry of the pose matrix",
        ["row", *(f"column {column + 1} (%)" for column in range(len(accuracy[0])))],
        [[row + 1, *values] for row, values in enumerate(accuracy)],
        caption=f"The entry is replaced by its mean in all capsules below the classes; {len(labels):,} test "
        f"images, of which {percent(whole)} are correct with all entries.",
    )
    study.add_verdict(
        diagonal > 2 * max(others, 0.0) and diagonal > 1,
        f"Without an entry of the diagonal the network with routing loses {diagonal:.1f} points of accuracy, "
        f"and without another entry {others:.1f}, on average. (Criterion: more than twice as many, and more "
        "than 1 point.)",
        question="Does the diagonal of a pose matrix matter more?",
    )


def load_test_images(study: Study, data: str) -> ImageSet:
    """Test images: digits, or toys that were not trained on."""
    if study.quick:
        return load("digits", "test", size=20)
    toys = load(data, "test", data_dir=study.data_dir, **toy_options(data))
    order = torch.randperm(len(toys), generator=torch.Generator().manual_seed(study.seed))
    return toys.select(order[:TEST_TOYS])


def make_recipe(study: Study, data: str, iterations: int) -> Recipe:
    """The matrix capsule network with so many iterations."""
    if study.quick:
        changes = ['schedule.name="cosine"', "schedule.warmup_steps=45"]
        changes += ["training.epochs=12", "training.batch_size=32", f"model.options.iterations={iterations}"]
        return default_recipe("matrix_capsnet_small", "digits").override(changes)
    return toy_capsnet(data, iterations)


CLAIM = Claim(
    name="votes",
    claim="routing finds tight clusters among the votes",
    source="Hinton, Sabour, Frosst, “Matrix capsules with EM routing” (ICLR 2018), Figure 2",
    data="smallNORB if its files are there, otherwise rendered toys",
    quick_data="scikit-learn's digits",
    minutes=25,
    run=run,
    published="Figure 2 of the paper: histograms without numbers",
)

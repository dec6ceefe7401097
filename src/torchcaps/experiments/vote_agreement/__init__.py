from __future__ import annotations

from functools import partial
from typing import Any

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.vote_agreement.clusters import CASES, measure_votes
from torchcaps.experiments.vote_agreement.figures import draw_average, draw_examples
from torchcaps.experiments.vote_agreement.verdicts import ROUTED, UNIFORM, add_verdicts
from torchcaps.models import Model
from torchcaps.training import default_recipe, load_recipe

ITERATIONS = {ROUTED: 3, UNIFORM: 1}


def run(study: Study) -> None:
    """Measure the votes for the classes in a network with routing and in one without."""
    images = load_test_images(study)
    networks = {name: load_network(study, name) for name in ITERATIONS}
    results: dict[str, dict[str, Any]] = {}
    for name, model in networks.items():
        results[name] = study.cached(f"votes in {name}", partial(measure_votes, model, images))
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
    draw_average(study, results[ROUTED])
    draw_examples(study, networks[ROUTED], images, results[ROUTED]["limit"])
    add_verdicts(study, results, len(images))


def load_test_images(study: Study) -> ImageSet:
    """Test digits in the size of the networks."""
    return load("digits", "test", size=20) if study.quick else load("mnist", "test", data_dir=study.data_dir)


def load_network(study: Study, name: str) -> Model:
    """The matrix capsule network with three iterations of routing, or with one, which is uniform coupling."""
    if study.quick:
        recipe = default_recipe("matrix_capsnet_small", "digits").override(
            [
                'schedule.name="cosine"',
                "schedule.warmup_steps=45",
                "training.epochs=12",
                "training.batch_size=32",
            ]
        )
    else:
        recipe = load_recipe("mnist-matrix-capsnet-small")
        if name == ROUTED:
            try:
                return study.pretrained("matrix_capsnet_small", "mnist")
            except ValueError as error:
                study.log(f"{error} It is trained instead.")
    recipe = recipe.override([f"model.options.iterations={ITERATIONS[name]}"])
    return study.train("routed" if name == ROUTED else "uniform", recipe)


CLAIM = Claim(
    name="votes",
    claim="routing finds tight clusters among the votes",
    source="Hinton, Sabour, Frosst, “Matrix capsules with EM routing” (ICLR 2018), Figure 2",
    data="MNIST",
    quick_data="scikit-learn's digits",
    minutes=45,
    run=run,
    published="Figure 2 of the paper: histograms without numbers",
)

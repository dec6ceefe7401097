from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from torchcaps.experiments.framework.formatting import percent
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.experiments.implicit.activation import (
    EXACT,
    LINEAR,
    RANGE,
    RELU,
    TRAINED,
    activations,
    measure_convergence,
    train_classifier,
)
from torchcaps.experiments.implicit.figures import draw_activation, draw_sequences
from torchcaps.experiments.implicit.sequence import (
    AGREEING,
    ITERATIONS,
    OTHERS,
    QUERY,
    make_sequences,
    train_encoder,
)

AS_GOOD, BETTER = 1.0, 2.0  # points of accuracy


def run(study: Study) -> None:
    """Unroll the equation of an activation and that of a sequence encoder, and train with both."""
    steps, count = (400, 2000) if study.quick else (1500, 4000)
    study.record_settings("networks", steps=steps, sequences=count, seed=study.seed)
    convergence = study.cached("convergence", measure_convergence)
    accuracies = study.cached(
        "networks with the activation",
        lambda: {name: train_classifier(each, study.seed, steps) for name, each in activations().items()},
    )
    train, test = make_sequences(study.seed, count, count)
    encoders: dict[str, dict[str, Any]] = {}
    for name in (*map(str, ITERATIONS), QUERY):
        iterations = None if name == QUERY else int(name)
        measure = partial(train_encoder, iterations, train, test, seed=study.seed, steps=steps)
        encoders[name] = study.cached(f"encoder, {name}", measure)
    add_activation(study, convergence, accuracies)
    add_encoders(study, encoders)
    add_verdicts(study, accuracies, encoders)


def add_activation(
    study: Study, convergence: dict[str, dict[str, float]], accuracies: dict[str, dict[str, float]]
) -> None:
    """Tables and figure of the activation."""
    for name, values in convergence.items():
        for key, value in values.items():
            study.add_number(f"activation.{name}.{key}", value)
    for name, values in accuracies.items():
        study.add_number(f"network.{name}.test", values["test"])
    study.add_table(
        "The activation y + cos y = x, unrolled",
        ["iterations", "difference of y, mean", "difference of y, median", "difference of dy/dx, median (%)"],
        [
            [int(name), values["error"], values["median"], 100 * values["slope"]]
            for name, values in convergence.items()
        ],
        caption=f"Unrolled y ← x − cos y compared with the solution, for |x| ≤ {RANGE:g}. The difference of "
        "the slope is relative to the slope of the solution.",
    )
    draw_activation(study, convergence)
    study.add_table(
        "A network with this activation",
        ["activation", "test accuracy (%)"],
        [[name, values["test"]] for name, values in accuracies.items()],
        caption="Two hidden layers of 32 units that learn to tell three arms of a spiral from each other. "
        "“Exact solution” solves the equation by bisection and takes its gradient from the implicit "
        "function theorem, limited to 100.",
    )


def add_encoders(study: Study, encoders: dict[str, dict[str, Any]]) -> None:
    """Table and figure of the sequence encoders."""
    rows = []
    for name, values in encoders.items():
        title = {"0": "mean", QUERY: f"attention, {QUERY}"}.get(name, f"attention to the mean, {name} ×")
        rows.append([title, values["train"], values["test"], values["largest"]])
        for key, value in values.items():
            study.add_number(f"encoder.{name}.{key}", value)
    study.add_table(
        "A sequence as one vector",
        ["encoder", "train (%)", "test (%)", "five largest weights (%)"],
        rows,
        caption=f"Each sequence has {AGREEING} vectors near the direction of its class and {OTHERS} in "
        "random directions. Each vector is mapped linearly to 16 numbers, the encoder makes one vector of "
        "all, and a linear layer chooses one of 10 classes. The last column is the share of the attention "
        "that the five largest weights have; it is 25 % for the mean.",
    )
    draw_sequences(study, encoders)


def judge(numbers: Mapping[str, float]) -> tuple[bool, str]:
    """Whether three unrolled iterations serve as well as the solution, and better than none."""
    network = {name: numbers[f"network.{name}.test"] for name in ("3 unrolled", EXACT, RELU)}
    encoder = {name: numbers[f"encoder.{name}.test"] for name in ("0", "3")}
    return (
        network["3 unrolled"] > network[EXACT] - AS_GOOD and encoder["3"] > encoder["0"] + BETTER,
        f"A network whose activation is y + cos y = x has {percent(network['3 unrolled'])} correct with "
        f"three unrolled iterations and {percent(network[EXACT])} with the exact solution "
        f"({percent(network[RELU])} with ReLU), although three iterations are "
        f"{numbers['activation.3.error']:.2f} from the solution on average. A sequence encoder has "
        f"{percent(encoder['3'])} with three iterations of attention to the mean, "
        f"{percent(numbers['encoder.5.test'])} with five and {percent(encoder['0'])} with the "
        f"mean. (Criterion: at most {AS_GOOD:g} point below the exact solution, and {BETTER:g} points above "
        "the mean.)",
    )


def add_verdicts(
    study: Study, accuracies: dict[str, dict[str, float]], encoders: dict[str, dict[str, Any]]
) -> None:
    """Whether more iterations are better, and whether the task needs the activation at all."""
    few, many = encoders["3"]["test"], encoders[str(ITERATIONS[-1])]["test"]
    study.add_verdict(
        many > few + AS_GOOD,
        f"The encoder has {percent(encoders['1']['test'])} with one iteration, {percent(few)} with three and "
        f"{percent(many)} with {ITERATIONS[-1]}. Attention with one learned query has "
        f"{percent(encoders[QUERY]['test'])}. (Criterion: {AS_GOOD:g} point above three iterations.)",
        question="Are ten iterations of attention better than three?",
    )
    study.add_verdict(
        accuracies[f"{TRAINED[-1]} unrolled"]["test"] > accuracies["1 unrolled"]["test"] + AS_GOOD,
        f"The network has {percent(accuracies['1 unrolled']['test'])} with one unrolled iteration, "
        f"{percent(accuracies[f'{TRAINED[-1]} unrolled']['test'])} with {TRAINED[-1]}, and "
        f"{percent(accuracies[LINEAR]['test'])} without an activation. (Criterion: {AS_GOOD:g} point.)",
        question="Is an activation that is closer to the solution better?",
    )


CLAIM = Claim(
    name="implicit",
    claim="a layer can be defined by an equation: a few unrolled iterations serve as well as its solution",
    source="Su Jianlin, “A delicious capsule feast” (essay, 2018), the two examples that lead to routing",
    data="generated points and sequences",
    quick_data="the same, with shorter training",
    minutes=2,
    run=run,
    judge=judge,
    published="the essay gives no numbers",
)

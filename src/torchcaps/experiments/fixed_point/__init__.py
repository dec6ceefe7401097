from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.fixed_point.verdicts import ITERATIONS, caption_of, judge, tiny
from torchcaps.experiments.framework.figures import BLUE, DARK, GRAY, ORANGE, add_axes, new_figure
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.layers import CapsuleLayer
from torchcaps.models import Model
from torchcaps.routing import DynamicRouting, RoutingOutput
from torchcaps.training import Recipe, load_recipe, predict

UPDATES = {"accumulate": "accumulation (2017)", "fixed_point": "fixed point"}
COLORS = {"accumulate": ORANGE, "fixed_point": BLUE}
SHOWN = (1, 3, 10, 30, 100)


def run(study: Study) -> None:
    """Route a trained network's votes up to a hundred times, with both updates of the logits."""
    images = images_to_test(study)
    networks = {update: network(study, update) for update in UPDATES}
    curves = {
        update: {
            trained: study.cached(
                f"{update} in the network trained with {trained}",
                partial(follow, model, images, update),
            )
            for trained, model in networks.items()
        }
        for update in UPDATES
    }
    rows: list[list[Any]] = []
    for trained in UPDATES:
        for update, name in UPDATES.items():
            found = curves[update][trained]
            picks = [found["accuracy"][r - 1] for r in (1, 3, 10, ITERATIONS)]
            rows.append(
                [
                    UPDATES[trained],
                    name,
                    found["entropy"][-1],
                    found["settled"],
                    tiny(found["change"][-1]),
                    *picks,
                ]
            )
            for key in ("entropy", "change", "accuracy"):
                study.add_number(f"trained with {trained}.{update}.{key}", found[key][-1])
    study.add_table(
        f"After {ITERATIONS} iterations at test time",
        [
            "trained with",
            "tested with",
            "entropy left (%)",
            "couplings at 0 or 1 (%)",
            "change of poses",
            "r = 1 right (%)",
            "r = 3",
            "r = 10",
            f"r = {ITERATIONS}",
        ],
        rows,
        caption=f"Two networks trained with 3 iterations, on {len(images):,} test images. Entropy is that of "
        "a child's couplings, 100 % if shared evenly: what r = 1 has, which is uniform routing. A coupling "
        "counts as 0 or 1 if it is within 0.01 of it. The change is the mean length by which a class pose "
        "moves in the last iteration.",
    )
    draw_curves(study, {update: found["accumulate"] for update, found in curves.items()})
    draw_couplings(study, networks["accumulate"], images)
    judge(study, curves, len(images))


def network(study: Study, update: str) -> Model:
    """A network trained with that update, for as long as the other one."""
    if study.quick:
        recipe = load_recipe("digits-shared-capsnet").override(
            ["training.epochs=16", "training.ema_decay=0.98", "evaluation.extra_datasets=[]"]
        )
    else:
        recipe = load_recipe("mnist-capsnet-small").override(["training.epochs=3", "training.ema_decay=0.99"])
    return study.train(update, with_update(recipe, update))


def with_update(recipe: Recipe, update: str) -> Recipe:
    """The same training with another update of the routing logits."""
    return recipe.override([f'model.options.update="{update}"'])


def images_to_test(study: Study) -> ImageSet:
    """Digits as the networks were trained on."""
    if study.quick:
        return load("digits", "test", size=16)
    return load("mnist", "test", data_dir=study.data_dir).select(torch.arange(5000))


def children_of(model: Model, images: Tensor) -> tuple[CapsuleLayer, Capsules]:
    """The last capsule layer, and the children that it is given."""
    layer = [module for module in model.modules() if isinstance(module, CapsuleLayer)][-1]
    seen: list[Capsules] = []
    stop = layer.watch(seen.append)
    try:
        predict(model, images, batch_size=len(images))
    finally:
        stop()
    return layer, seen[-1]


def routing_like(trained: DynamicRouting, update: str, iterations: int = ITERATIONS) -> DynamicRouting:
    """The routing of a trained layer, with another update and number of iterations."""
    routing = DynamicRouting(iterations=iterations, update=update, leaky=trained.leaky, squash=trained.squash)
    routing.bias = trained.bias
    return routing


@torch.no_grad()
def follow(model: Model, images: ImageSet, update: str, batch_size: int = 100) -> dict[str, Any]:
    """Accuracy, entropy and change of poses after each iteration, averaged over images.

    An iteration of a long routing is the last one of a shorter: one pass gives every r.
    """
    entropy, change, right = (torch.zeros(ITERATIONS, dtype=torch.float64) for _ in range(3))
    settled = 0.0
    for chosen in torch.arange(len(images)).split(batch_size):
        layer, children = children_of(model, images.images[chosen].float() / 255)
        assert isinstance(layer.routing, DynamicRouting)
        routing = routing_like(layer.routing, update)
        before: Tensor | None = None
        steps = routing.iterate(layer.votes(children), children.activation.flatten(1))
        share = len(chosen) / len(images)
        for number, step in enumerate(steps):
            coupling, best = step.coupling, step.activation[:, 0].argmax(-1)
            assert coupling is not None
            entropy[number] += share * softness(coupling)
            right[number] += (best == images.labels[chosen]).sum() / len(images)
            if before is not None:
                change[number] += share * float((step.pose - before).norm(dim=-1).mean())
            before = step.pose
            if number == ITERATIONS - 1:
                settled += share * float(((coupling - coupling.round()).abs() < 0.01).float().mean())
    return {
        "entropy": (100 * entropy).tolist(),
        "change": change.tolist(),
        "accuracy": (100 * right).tolist(),
        "settled": 100 * settled,
    }


def softness(coupling: Tensor) -> float:
    """Mean entropy of couplings `[..., J]`, as a share of ln J.

    >>> round(softness(torch.tensor([[0.5, 0.5], [0.0, 1.0]])), 6)
    0.5
    """
    return float(torch.special.entr(coupling).sum(-1).mean()) / math.log(coupling.shape[-1])


def draw_curves(study: Study, curves: dict[str, dict[str, Any]]) -> None:
    """Entropy, change and accuracy against iterations, for the network trained with accumulation."""
    figure = new_figure(10.2, 3.5)
    entropy, change, accuracy = add_axes(figure, 1, 3)
    steps = range(1, ITERATIONS + 1)
    for update, name in UPDATES.items():
        style = {"color": COLORS[update], "label": name}
        entropy.plot(steps, curves[update]["entropy"], **style)
        change.plot(steps[1:], curves[update]["change"][1:], **style)
        accuracy.plot(steps, curves[update]["accuracy"], **style)
    entropy.set(ylim=(0, 103), ylabel="%", title="entropy of couplings")
    change.set(yscale="log", ylabel="mean length", title="change of class poses")
    low = min(min(each["accuracy"]) for each in curves.values())
    accuracy.set(
        ylabel="%", ylim=(low - 0.25 * (100 - low) - 0.1, 100.1), title="accuracy with r at test time"
    )
    for ax in (entropy, change, accuracy):
        ax.set(xscale="log", xlabel="iterations r", xticks=SHOWN, xticklabels=SHOWN)
        ax.minorticks_off()
        ax.axvline(3, color=GRAY, linewidth=0.8, linestyle=":")
    entropy.legend(loc="center left", frameon=False)
    study.add_figure(
        "iterations",
        figure,
        caption=caption_of(curves),
    )


def sorted_couplings(model: Model, image: Tensor, update: str) -> list[Tensor]:
    """Couplings `[children, classes]` at the shown iterations, of the children with the longest poses.

    They stand in the order of the class that accumulation ends with.
    """
    with torch.no_grad():
        layer, children = children_of(model, image)
        trained = layer.routing
        assert isinstance(trained, DynamicRouting)
        votes, activation = layer.votes(children), children.activation.flatten(1)

        def couplings(kind: str) -> list[Tensor]:
            steps: list[RoutingOutput] = routing_like(trained, kind).history(votes, activation)
            return [step.coupling[0, 0] for step in steps if step.coupling is not None]

        strongest = activation[0].argsort(descending=True)[:64]
        last = couplings("accumulate")[-1][strongest]
        order = strongest[(last.argmax(1) * 2.0 - last.amax(1)).argsort()]
        return [couplings(update)[number - 1][order] for number in SHOWN]


def decided(coupling: Tensor) -> int:
    """How many children `[children, classes]` one class has to 99 %.

    >>> decided(torch.tensor([[1.0, 0.0], [0.5, 0.5]]))
    1
    """
    return int((coupling.amax(1) > 0.99).sum())


def draw_couplings(study: Study, model: Model, images: ImageSet) -> None:
    """How one digit's couplings look after 1, 3, … 100 iterations."""
    chosen = int((images.labels == 2).nonzero()[3])
    image = images.images[chosen : chosen + 1].float() / 255
    figure = new_figure(9.6, 5.6)
    axes = add_axes(figure, 2, len(SHOWN))
    ends = []
    for row, (update, name) in enumerate(UPDATES.items()):
        shown = sorted_couplings(model, image, update)
        ends.append(f"{decided(shown[-1])} of {len(shown[-1])} with {name}")
        for column, coupling in enumerate(shown):
            ax = axes[row * len(SHOWN) + column]
            drawn = ax.imshow(coupling, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
            ax.set(xticks=range(10), yticks=[])
            ax.tick_params(labelsize=7, length=0, labelbottom=row == 1)
            ax.grid(visible=False)
            ax.spines[:].set_visible(False)
            if row == 0:
                ax.set_title(f"r = {SHOWN[column]}", loc="center", color=DARK)
            if column == 0:
                ax.set_ylabel(name, fontsize=10, color=COLORS[update])
    bar = figure.colorbar(drawn, ax=axes, shrink=0.6, pad=0.015, ticks=[0, 0.5, 1])
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    inset = axes[0].inset_axes((0.62, 0.76, 0.34, 0.22))
    inset.imshow(image[0, 0], cmap="gray_r")
    inset.set(xticks=[], yticks=[])
    study.add_figure(
        "couplings",
        figure,
        caption="One test digit (corner): the couplings of its strongest children (rows) to the ten "
        f"classes (columns). In the end, children that one class has to 99 %: {', '.join(ends)}.",
    )


CLAIM = Claim(
    name="fixed-point",
    claim="accumulation drives couplings to 0 or 1; the fixed-point form of routing converges",
    source="Su Jianlin, “A delicious capsule feast” (essay, 2018), on Sabour, Frosst, Hinton 2017",
    data="MNIST",
    quick_data="scikit-learn's digits",
    minutes=25,
    run=run,
)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.attacks import fgsm
from torchcaps.data import load
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.adversarial.measurements import EPSILONS, PANELS, QUICK_EPSILONS, Seen, attack
from torchcaps.experiments.framework.figures import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    add_axes,
    image_grid,
    new_figure,
)
from torchcaps.experiments.framework.statistics import chance_margin, significantly_higher
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.models import Model
from torchcaps.training import Recipe, default_recipe, load_recipe, predict

# With one iteration of EM every child is shared evenly among its parents: capsules without routing.
CAPS, UNROUTED, BASE, OTHER = "capsules, EM routing", "capsules, no routing", "CNN", "another CNN"
COLORS = {CAPS: BLUE, UNROUTED: GREEN, BASE: ORANGE}


def run(study: Study) -> None:
    """Train, then attack every network at every ε."""
    images, labels, classes = test_images(study)
    networks = {name: network(study, name, images) for name in (CAPS, UNROUTED, BASE, OTHER)}
    surrogate = networks.pop(OTHER)
    found = {}
    for name, model in networks.items():
        found[name] = attack(study, name, model, surrogate, images, labels)
    report(study, found, guessing=100 / len(classes))
    draw_curves(study, found, guessing=100 / len(classes))
    draw_images(study, networks, images, labels, classes)
    judge(study, found, guessing=100 / len(classes))


def recipe(study: Study, name: str) -> Recipe:
    """How a network is trained."""
    capsules = name in (CAPS, UNROUTED)
    model = "matrix_capsnet_small" if capsules else "norb_cnn"
    changes = ["model.options.iterations=1"] if name == UNROUTED else []
    changes += ["seed=1"] if name == OTHER else []
    if study.quick:
        made = default_recipe(model, "digits")
        # At 17×17 every pixel lies in some field, so that no slope is 0 for geometry's sake alone. Without
        # routing capsules learn more slowly, and take less time for it.
        epochs = {CAPS: 10, UNROUTED: 20}.get(name, 6)
        changes += ["data.options.size=17", f"training.epochs={epochs}", "training.batch_size=32"]
        return made.override([*changes, "training.ema_decay=0.98", 'schedule.name="cosine"'])
    return load_recipe("toys-matrix-capsnet-small" if capsules else "toys-norb-cnn").override(changes)


def network(study: Study, name: str, images: Tensor) -> Model:
    """A trained network that takes images as they are; one that comes with torchcaps where there is one."""
    made = recipe(study, name)
    folder = name.replace(", ", "-").replace(" ", "_")
    take = Study.pretrained_or_train if name == CAPS and not study.quick else Study.train
    model = take(study, folder, made)
    size = images.shape[2], images.shape[3]
    return Seen(model, Preprocess.from_options(made.data.preprocess), size).eval()


def test_images(study: Study) -> tuple[Tensor, Tensor, tuple[str, ...]]:
    """What is attacked: images `[N, C, H, W]` in 0..1, labels `[N]`, and the names of the classes."""
    if study.quick:
        shown, count = load("digits", "test", size=17), 100
    else:
        shown, count = load("toys", "test", size=48, data_dir=study.data_dir), 500
    shown = shown.select(torch.arange(count))
    return shown.images.float() / 255, shown.labels, shown.classes


def report(study: Study, found: dict[str, dict[str, Any]], guessing: float) -> None:
    """The table, at the ε at which all attacks were tried."""
    place = 1
    epsilon = next(iter(found.values()))["epsilon"][place]
    rows: list[list[Any]] = []
    for name, each in found.items():
        at = [each[kind][place] for kind in ("fgsm", "bim", "pgd", "targeted", "transfer")]
        rows.append([name, each["clean"], *at, each["zero_pixels"], each["zero_images"]])
        for kind in ("clean", "zero_pixels", "zero_images"):
            study.add_number(f"{name}.{kind}", each[kind])
        for kind in (*PANELS, "pgd"):
            for size, value in zip(each["epsilon"], each[kind]):
                if value is not None:
                    study.add_number(f"{name}.{kind}.{size}", value)
    paper = [
        ["paper: capsules", None, "≥ chance", None, None, None, "as the CNN", None, None],
        ["paper: CNN", None, "< chance", None, None, None, None, None, None],
    ]
    study.add_table(
        f"Under attack, ε = {epsilon}",
        [
            "network",
            "clean (%)",
            "FGSM (%)",
            "BIM (%)",
            "PGD (%)",
            "targeted FGSM succeeds (%)",
            "black box (%)",
            "zero slopes (%)",
            "images without slope (%)",
        ],
        rows + paper,
        caption="Accuracy when every pixel may change by ε of the range from black to white; guessing gives "
        f"{guessing:.0f} %. Targeted: how often an image passes for a given other class, mean over classes. "
        "Black box: changed against another CNN. Zero slopes: the share of pixels whose slope is exactly 0, "
        "and of images where all are, so that an attack finds nothing to follow; a few pixels at the border "
        "may be out of every capsule's field. Shaded: Figure 3 of the paper, on smallNORB, in words.",
        marked=[len(rows), len(rows) + 1],
    )


def draw_curves(study: Study, found: dict[str, dict[str, Any]], guessing: float) -> None:
    """Accuracy and success against ε."""
    figure = new_figure(5.8, 6.0)
    for ax, (kind, (title, what)) in zip(add_axes(figure, 2, 2), PANELS.items()):
        for name, each in found.items():
            start = right_away(kind, each)
            ax.plot(
                [0, *each["epsilon"]],
                [start, *each[kind]],
                marker="o",
                markersize=4,
                color=COLORS[name],
                label=name,
            )
            if kind == "bim":
                points = [(e, value) for e, value in zip(each["epsilon"], each["pgd"]) if value is not None]
                ax.plot(
                    *zip(*points),
                    marker="s",
                    markersize=4,
                    linestyle="--",
                    linewidth=1.2,
                    color=COLORS[name],
                )
        if kind != "targeted":
            ax.axhline(guessing, color=GRAY, linewidth=0.8, linestyle=":")
        ax.set(title=title, xlabel="ε", ylabel=what, ylim=(-3, 103))
    figure.axes[0].legend(fontsize=8, loc="upper right", frameon=False)
    study.add_figure(
        "curves",
        figure,
        caption="Each network under four attacks of growing ε; the dotted line is guessing. A curve that "
        "stays up is good, but for the attack towards a class (lower left), where it is bad. All but the "
        "last know the network they attack; the images at the lower right were made against another CNN.",
    )


def right_away(kind: str, found: dict[str, Any]) -> float | None:
    """Where a curve starts at ε = 0: unchanged images; nothing was asked of them to pass for."""
    return None if kind == "targeted" else found["clean"]


def draw_images(
    study: Study, networks: dict[str, Model], images: Tensor, labels: Tensor, classes: tuple[str, ...]
) -> None:
    """A few images, and what FGSM makes of them against capsules and CNN."""
    epsilon = (QUICK_EPSILONS if study.quick else EPSILONS)[2]
    some, names = images[:6], labels[:6]
    rows = [some] + [fgsm(networks[name], some, names, epsilon) for name in (CAPS, BASE)]
    drawn = torch.stack([row[:, 0] for row in rows]).numpy()
    figure = image_grid(
        drawn,
        rows=["as it is", "against capsules", "against the CNN"],
        columns=[classes[int(label)] for label in names],
        colors="gray_r" if study.quick else "gray",
        cell=0.8,
    )
    said = [predict(networks[name], row).scores.argmax(1) for name, row in zip((CAPS, BASE), rows[1:])]
    for row, answers in enumerate(said, start=1):
        for column, answer in enumerate(answers.tolist()):
            ax = figure.axes[row * len(names) + column]
            wrong = answer != int(names[column])
            ax.set_xlabel(classes[answer], fontsize=8, color=ORANGE if wrong else GRAY, labelpad=1)
    study.add_figure(
        "images",
        figure,
        caption=f"Test images, and what FGSM at ε = {epsilon} makes of them. Over each column what it shows, "
        "under each changed image what the attacked network says; orange where it is fooled.",
    )


def judge(study: Study, found: dict[str, dict[str, Any]], guessing: float) -> None:
    """Four verdicts: white box in one step, towards a class, in many steps; black box."""
    lowest = min(found[CAPS]["fgsm"]), min(found[BASE]["fgsm"])
    holds, words = compared(found, "fgsm")
    study.add_verdict(
        holds,
        f"One step (FGSM): {words}. At worst capsules are right on {lowest[0]:.1f} % and the CNN on "
        f"{lowest[1]:.1f} %, where guessing gives {guessing:.0f} %.",
    )
    ours, theirs = found[CAPS]["targeted"][-1], found[BASE]["targeted"][-1]
    study.add_verdict(
        significantly_higher(theirs, ours, found[CAPS]["count"]),
        f"Towards a given class, FGSM at ε = {found[CAPS]['epsilon'][-1]:g} succeeds with {ours:.1f} % of "
        f"the images against capsules and with {theirs:.1f} % against the CNN.",
        question="Are they harder to lead to a given class?",
    )
    holds, words = compared(found, "bim")
    rest = "Small steps find what one long step overshoots." if min(found[CAPS]["bim"]) < guessing / 2 else ""
    study.add_verdict(
        holds, f"Many steps (BIM): {words}. {rest}".strip(), question="Do they withstand many steps, too?"
    )
    holds, words = compared(found, "transfer")
    study.add_verdict(
        {True: False, False: True, None: None}[holds],
        f"Images changed against another CNN: {words}. The paper found no advantage here either way.",
        question="Black box: no advantage, as in the paper?",
    )


def compared(found: dict[str, dict[str, Any]], kind: str) -> tuple[bool | None, str]:
    """Whether capsules are ahead of the CNN under an attack (at few ε, or behind at some: `None`), in words.

    A lead within two standard errors is none. One beyond them at a single ε may still be chance, as several
    are tried, so that half of them are asked for.

    >>> ours = {"epsilon": [0.1, 0.2], "count": 500, "fgsm": [50.0, 9.0]}
    >>> compared({CAPS: ours, BASE: {"fgsm": [60.0, 1.0]}}, "fgsm")
    (None, 'capsules are ahead at ε = 0.2 (9.0 against 1.0 %) and behind at ε = 0.1 (50.0 against 60.0 %)')
    """
    sizes, ours, theirs = found[CAPS]["epsilon"], found[CAPS][kind], found[BASE][kind]
    leads: list[str] = []
    lags: list[str] = []
    for size, a, b in zip(sizes, ours, theirs):
        if abs(a - b) > chance_margin(a, b, found[CAPS]["count"]):
            (leads if a > b else lags).append(f"ε = {size:g} ({a:.1f} against {b:.1f} %)")
    words = [f"ahead at {', '.join(leads)}"] * bool(leads) + [f"behind at {', '.join(lags)}"] * bool(lags)
    holds = bool(leads) and (True if not lags and 2 * len(leads) >= len(sizes) else None)
    return holds, "capsules are " + (" and ".join(words) or "neither ahead of the CNN nor behind it at any ε")


CLAIM = Claim(
    name="adversarial",
    claim="capsules withstand adversarial images made for them better than a CNN those made for it",
    source="Hinton, Sabour, Frosst, “Matrix capsules with EM routing” (2018), Figure 3",
    data="rendered toys (made on first use)",
    quick_data="scikit-learn's digits",
    minutes=60,
    run=run,
)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchcaps.data import load
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.figures import BLUE, DARK, ORANGE, add_axes, color_overlay, new_figure
from torchcaps.experiments.framework.statistics import significantly_higher
from torchcaps.experiments.framework.study import Claim, Study
from torchcaps.models import CapsuleModel, Model
from torchcaps.training import Recipe, evaluate, load_recipe, predict

DYNAMIC, UNIFORM, CONVOLUTIONAL = "capsules, dynamic routing", "capsules, uniform routing", "CNN"
PUBLISHED = [
    ["paper: capsules", 11_400_000, 5.2, None, None, None],
    ["paper: CNN", 24_600_000, 8.1, None, None, None],
]
HEADINGS = ["pairs not right (%)", "drawing error (%)", "ink if there (%)", "ink if not there (%)"]
QUICK = [
    'data.options={source="digits", size=18, per_image=6}',
    "data.resample_each_epoch=false",
    "training.epochs=3",
    "training.batch_size=32",
    "training.ema_decay=0.99",
    "optimizer.lr=2e-3",
    "schedule.warmup_steps=0",
]
# The CNN has the best of three rates tried (2e-3, 1e-3, 5e-4), by the pairs that are also the test, which
# favors the CNN; capsules have the same rate, the only one tried.
# Small images have fewer pixels to add up, and the decoder has little time.
QUICK_CAPSULES = [*QUICK, "model.options.channels=32", "loss.reconstruction=0.005"]
QUICK_CNN = [*QUICK, "model.options={channels=[16, 16, 8], hidden=[112, 64]}"]
INKS = (BLUE, ORANGE)


def run(study: Study) -> None:
    """Train each network on overlapping digits, count pairs read right, and draw the digits one by one."""
    pairs = test_pairs(study)
    rows: list[list[Any]] = []
    models = {name: network(study, name) for name in (DYNAMIC, UNIFORM, CONVOLUTIONAL)}
    found = {name: measure(study, name, model, pairs) for name, model in models.items()}
    for name, values in found.items():
        weights = sum(each.numel() for each in models[name].parameters())
        rows.append([name, weights, *(values.get(key) for key in ("error", "drawn", "present", "absent"))])
    copied = 100 * float(drawing_error(pixels_of(pairs).expand(-1, 2, -1, -1), parts_of(pairs)).mean())
    study.add_number("copy.drawn", copied)
    study.add_table(
        "Two digits over each other",
        ["network", "weights", *HEADINGS],
        [*rows, ["the image itself as each digit", None, None, copied, None, None], *PUBLISHED],
        caption=f"{len(pairs):,} test pairs, right only if both digits are. Drawing error: squared "
        "difference between a digit and what its capsule draws, as a share of the digit's own ink; whoever "
        "takes the whole image for each digit has the other digit as error. Ink: how much is drawn when "
        "asked for a digit that is there or not there, 100 being the ink of a digit. Shaded: the paper's "
        "figures, on 10 million pairs of MNIST.",
        marked=[len(rows) + 1, len(rows) + 2],
    )
    capsules = models[DYNAMIC]
    assert isinstance(capsules, CapsuleModel)
    draw_pairs(study, capsules, pairs)
    draw_absent(study, capsules, pairs)
    give_verdicts(study, found, copied, len(pairs))


def give_verdicts(study: Study, found: dict[str, dict[str, float]], copied: float, count: int) -> None:
    """Whether digits are told apart, whether better than by a CNN, and whether routing does it."""
    routed, unrouted = found[DYNAMIC], found[UNIFORM]
    cnn = found[CONVOLUTIONAL]["error"]
    worse = significantly_higher(routed["error"], cnn, count)
    better = significantly_higher(cnn, routed["error"], count) or (False if worse else None)
    study.add_verdict(
        better if routed["drawn"] < copied else False,
        f"Capsules get {routed['error']:.1f} % of the pairs wrong, a CNN of as many weights {cnn:.1f} %; "
        f"each digit is drawn alone with {routed['drawn']:.0f} % error, where the overlap itself is "
        f"{copied:.0f} % away."
        + (" The two errors differ by no more than chance." if better is None else ""),
    )
    study.add_verdict(
        significantly_higher(unrouted["error"], routed["error"], count),
        f"With uniform coupling, which never looks at agreement, capsules get {unrouted['error']:.1f} % "
        f"wrong and draw with {unrouted['drawn']:.0f} % error.",
        question="Is it routing?",
    )
    study.add_verdict(
        routed["absent"] < routed["present"] / 2,
        f"Asked for a digit that is not there, the decoder draws {routed['absent']:.0f} % of a digit's ink, "
        f"against {routed['present']:.0f} % for one that is there.",
        question="Is a digit drawn only where there is one?",
    )


def network(study: Study, name: str) -> Model:
    """A network trained on overlapping digits."""
    recipe = load_recipe("multimnist-cnn" if name == CONVOLUTIONAL else "multimnist-capsnet-small")
    if study.quick:
        recipe = recipe.override(QUICK_CNN if name == CONVOLUTIONAL else QUICK_CAPSULES)
        return study.train(file_name(name), routed_as(name, recipe))
    if name == UNIFORM:
        return study.train(file_name(name), routed_as(name, recipe))
    return study.pretrained_or_train(file_name(name), recipe)


def routed_as(name: str, recipe: Recipe) -> Recipe:
    """The recipe, with uniform coupling if the name says so."""
    return recipe.override(['model.options.routing="uniform"']) if name == UNIFORM else recipe


def file_name(name: str) -> str:
    """A network's name as a folder's."""
    return name.replace(", ", "-").replace(" ", "_")


def test_pairs(study: Study) -> ImageSet:
    """Overlapping test digits."""
    if study.quick:
        return load("multimnist", "test", source="digits", size=18, per_image=4)
    return load("multimnist", "test", data_dir=study.data_dir)


def measure(study: Study, name: str, model: Model, pairs: ImageSet) -> dict[str, float]:
    """Pairs not right, and for capsules how well and how much is drawn, all in percent."""

    def compute() -> dict[str, float]:
        values = {"error": 100 * evaluate(model, pairs).error}
        if not isinstance(model, CapsuleModel):
            return values
        some = pairs.select(torch.arange(min(len(pairs), 2000)))
        parts = parts_of(some)
        drawn = draw_each(model, some)
        there = torch.zeros(drawn.shape[:2], dtype=torch.bool).scatter(1, some.labels, True)
        digit = parts.sum((2, 3)).mean()
        shares = drawn.sum((2, 3)) / digit
        asked = drawn.gather(1, some.labels[:, :, None, None].expand(-1, -1, *drawn.shape[2:]))
        return values | {
            "drawn": 100 * float(drawing_error(asked, parts).mean()),
            "present": 100 * float(shares[there].mean()),
            "absent": 100 * float(shares[~there].mean()),
        }

    found = study.cached(f"what {name} reads and draws", compute)
    for key, value in found.items():
        study.add_number(f"{name}.{key}", value)
    return found


def pixels_of(pairs: ImageSet) -> Tensor:
    """Images as networks see them, `[N, 1, H, W]` in 0..1."""
    return pairs.images.float() / 255


def parts_of(pairs: ImageSet) -> Tensor:
    """The two digits alone, `[N, 2, H, W]` in 0..1."""
    return pairs.metadata["parts"].float() / 255


@torch.no_grad()
def draw_each(model: Model, pairs: ImageSet) -> Tensor:
    """Every class capsule of every image drawn alone, whether it is there or not: `[N, classes, H, W]`."""
    capsules = predict(model, pixels_of(pairs)).capsules
    assert capsules is not None
    asked = [torch.full((len(pairs),), label) for label in range(model.num_classes)]
    return torch.cat([model.reconstruct(capsules, label) for label in asked], dim=1)


def drawing_error(drawn: Tensor, parts: Tensor) -> Tensor:
    """Squared difference as a share of the digit's own squared ink, digit by digit: `[N, 2]`.

    >>> digit = torch.ones(1, 2, 4, 4)
    >>> drawing_error(digit / 2, digit)
    tensor([[0.2500, 0.2500]])
    """
    return (drawn - parts).square().sum((2, 3)) / parts.square().sum((2, 3)).clamp(min=1e-12)


def draw_pairs(study: Study, model: Model, pairs: ImageSet, count: int = 8) -> None:
    """Pairs, the digits they are made of, and the two that the longest capsules draw."""
    some = pairs.select(torch.linspace(0, len(pairs) - 1, count + 2).long()[1:-1])
    scores = predict(model, pixels_of(some)).scores
    parts, drawn = parts_of(some), draw_each(model, some)
    figure = new_figure(9.6, 4.6)
    axes = add_axes(figure, 3, count)
    for column in range(count):
        best = matched(scores[column].topk(2).indices.tolist(), some.labels[column].tolist())
        pictures = [
            color_overlay(pixels_of(some)[column, 0]),
            color_overlay(parts[column, 0], parts[column, 1], colors=INKS),
            color_overlay(drawn[column, best[0]], drawn[column, best[1]], colors=INKS),
        ]
        titles = ["", "{} + {}".format(*some.labels[column].tolist()), "{} + {}".format(*best)]
        right = set(best) == set(some.labels[column].tolist())
        for row, (picture, title) in enumerate(zip(pictures, titles)):
            ax = axes[row * count + column]
            ax.imshow(picture, interpolation="nearest")
            ax.set_title(title + ("" if row < 2 or right else " ✗"), loc="center", fontsize=9)
            plain(ax)
            if column == 0:
                label = ("seen", "made of", "drawn")[row]
                ax.set_ylabel(label, rotation=0, ha="right", va="center")
    study.add_figure(
        "pairs",
        figure,
        caption="Above, what the network sees; in the middle, the two digits it is made of, in two colors; "
        "below, what the two longest capsules draw, each from its own pose alone. A pixel that both "
        "digits ink is claimed by both. A cross marks a pair that was not read right.",
    )


def matched(said: list[int], true: list[int]) -> list[int]:
    """Two answers in the order in which they agree with the truth, so that a digit keeps its color.

    >>> matched([7, 4], [4, 7]), matched([3, 4], [4, 7]), matched([1, 2], [4, 7])
    ([4, 7], [4, 3], [1, 2])
    """
    turned = said[::-1]
    return turned if sum(map(int.__eq__, turned, true)) > sum(map(int.__eq__, said, true)) else said


def draw_absent(study: Study, model: Model, pairs: ImageSet, count: int = 4) -> None:
    """A few pairs, and what is drawn when asked for each of the ten digits."""
    some = pairs.select(torch.linspace(0, len(pairs) - 1, count + 2).long()[1:-1])
    lengths, drawn = predict(model, pixels_of(some)).scores, draw_each(model, some)
    figure = new_figure(9.6, 1.05 * count + 0.2)
    axes = add_axes(figure, count, 1 + drawn.shape[1])
    for row in range(count):
        line = axes[row * (1 + drawn.shape[1]) :]
        line[0].imshow(color_overlay(pixels_of(some)[row, 0]), interpolation="nearest")
        line[0].set_title("seen", loc="center", fontsize=8)
        plain(line[0])
        for label in range(drawn.shape[1]):
            there = label in some.labels[row].tolist()
            picture = color_overlay(drawn[row, label], colors=[BLUE] if there else [DARK])
            line[label + 1].imshow(picture, interpolation="nearest")
            title = f"{label}: {float(lengths[row, label]):.2f}"
            line[label + 1].set_title(title, loc="center", fontsize=8, weight="bold" if there else "normal")
            plain(line[label + 1])
    study.add_figure(
        "asked",
        figure,
        caption="What each of the ten capsules draws, with its length; in blue the two that are there. The "
        "others show what the decoder makes of a digit that is not there: a blur of no class where the "
        "capsule is short, strokes where it is not. How much ink that is, is the table's last column.",
    )


def plain(ax: Any) -> None:
    """Only the picture: no frame, no grid, no ticks."""
    ax.grid(visible=False)
    ax.spines[:].set_visible(False)
    ax.set(xticks=[], yticks=[])


CLAIM = Claim(
    name="overlap",
    claim="routing separates highly overlapping digits",
    source="Sabour, Frosst, Hinton, “Dynamic Routing Between Capsules” (2017), section 6 and figure 5",
    data="MNIST, laid over each other",
    quick_data="scikit-learn's digits, laid over each other",
    minutes=60,
    run=run,
)

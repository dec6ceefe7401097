"""Networks that several experiments train alike, so that one training serves all of them."""

from __future__ import annotations

import json
from typing import Any

from torchcaps.training import Recipe, default_recipe, load_recipe

IMAGES, EPOCHS = 20_000, 8
# Many designs and few views of each: with the five toys of NORB per category, networks know too little about
# new toys.
TOYS: dict[str, Any] = {
    "size": 32,
    "toys_per_category": 25,
    "elevations": [1, 4, 7],
    "azimuths": list(range(0, 36, 4)),
    "lightings": [1, 4],
}
# In a trial the CNN of the paper had 4.4 % on new toys after 12 epochs, and capsules were far from their end.
TOY_EPOCHS = 20


def digit_capsnet() -> Recipe:
    """The small network of 2017 with its decoder, on a third of MNIST: dynamic routing, 3 iterations.

    >>> digit_capsnet().model.name
    'capsnet_small'
    """
    return shortened(load_recipe("mnist-capsnet-small"))


def shortened(recipe: Recipe) -> Recipe:
    """A recipe for MNIST with the images, shifts, epochs and precision that all networks compared have.

    Args:
        recipe: of any network.
    """
    return recipe.override(
        [
            f"data.limit={IMAGES}",
            # The epoch with the fewest errors on these digits is taken, and no test digit is seen before.
            "data.val_fraction=0.03",
            "data.preprocess={translate=2}",
            f"training.epochs={EPOCHS}",
            "training.batch_size=128",
            "training.ema_decay=0.99",
            'training.precision="fp32"',
            'schedule={name="cosine"}',
            "evaluation.extra_datasets=[]",
        ]
    )


def ten_thousand_digits() -> Recipe:
    """The small network of 2017 on 10,000 digits, for comparisons of many networks and learning rates."""
    return default_recipe("capsnet_small", "mnist").override(
        [
            "data.limit=10000",
            "data.val_fraction=0.03",
            "training.epochs=6",
            "training.batch_size=64",
            "training.ema_decay=0.98",
            'schedule.name="cosine"',
        ]
    )


def toy_options(data: str) -> dict[str, Any]:
    """Options of the loader of toys or of smallNORB.

    >>> toy_options("smallnorb")
    {'size': 32}
    """
    return TOYS if data == "toys" else {"size": TOYS["size"]}


def on_toys(recipe: Recipe, data: str) -> Recipe:
    """A recipe with the images, batches, epochs and schedule that all networks on toys have.

    Args:
        recipe: of any network for stereo images of toys.
        data: `"toys"` or `"smallnorb"`.
    """
    options = ", ".join(f"{name} = {json.dumps(value)}" for name, value in toy_options(data).items())
    return recipe.override(
        [
            f'data.name="{data}"',
            f"data.options={{ {options} }}",
            # Views of training toys: the best epoch is taken, and new toys are tested once.
            "data.val_fraction=0.05",
            "data.preprocess={ standardize = true, crop = 24, brightness = 0.2, contrast = 0.2 }",
            'schedule={name="cosine", warmup_steps=100}',
            f"training.epochs={TOY_EPOCHS}",
            "training.batch_size=64",
            "training.ema_decay=0.99",
            'training.precision="fp32"',
            "evaluation.crops=1",
        ]
    )


def toy_capsnet(data: str, iterations: int) -> Recipe:
    """The 68 K matrix capsule network with cross-entropy and so many iterations of EM routing."""
    # If the loss is the spread loss, its margin is at its end after half of the training.
    changes = [f"model.options.iterations={iterations}", "loss.margin_steps=1000"]
    return on_toys(load_recipe("toys-matrix-capsnet-small").override(changes), data)


def toy_cnn(data: str) -> Recipe:
    """The CNN of the 2018 paper."""
    return on_toys(load_recipe("toys-norb-cnn"), data)

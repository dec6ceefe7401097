"""One trunk with four heads, the CNN of the paper, and how they are trained and chosen."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps.data.imageset import ImageSet
from torchcaps.losses import margin_loss, reconstruction_loss
from torchcaps.models import Model, Output
from torchcaps.models.base import softmax_output
from torchcaps.models.baselines import CapsNetCNN
from torchcaps.models.capsnet import CapsNet

CAPSULES, UNIFORM = "capsules, dynamic routing", "capsules, uniform coupling"
DENSE, POOLED = "CNN, dense layers", "CNN, average pooling"
PAPER = "CNN of the paper"
CNNS = (PAPER, DENSE, POOLED)
NETWORKS = (CAPSULES, UNIFORM, *CNNS)
CHANNELS, TYPES, PRIMARY_DIM = 32, 8, 8
VALIDATIONS = 10  # in a training run


class TrunkCNN(Model):
    """The two convolutions of `CapsNet`, with ReLU in place of squashing, and a head without capsules.

    Args:
        image_size: height and width of an image.
        hidden: units of the hidden layer on the flattened map; `None` for average pooling.
    """

    def __init__(self, *, image_size: int, hidden: int | None) -> None:
        super().__init__(num_classes=10, in_channels=1, image_size=image_size)
        width = TYPES * PRIMARY_DIM
        self.trunk = nn.Sequential(
            nn.Conv2d(1, CHANNELS, 9), nn.ReLU(), nn.Conv2d(CHANNELS, width, 9, stride=2), nn.ReLU()
        )
        places = ((image_size - 8 - 9) // 2 + 1) ** 2
        self.head: nn.Module
        if hidden is None:
            self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
        else:
            self.head = nn.Sequential(
                nn.Flatten(), nn.Linear(width * places, hidden), nn.ReLU(), nn.Linear(hidden, 10)
            )

    def forward(self, images: Tensor, target: Tensor | None = None) -> Output:
        """Classify images `[B, 1, H, W]`."""
        self.check_images(images)
        return softmax_output(self.head(self.trunk(images)))


def build(name: str, image_size: int) -> Model:
    """An untrained network; the hidden layer has as many parameters as the class capsules."""
    if name in (CAPSULES, UNIFORM):
        options: dict[str, Any] = {"channels": CHANNELS, "types": TYPES, "decoder": (128, 256)}
        routing = "dynamic" if name == CAPSULES else "uniform"
        return CapsNet(num_classes=10, in_channels=1, image_size=image_size, routing=routing, **options)
    if name == PAPER:
        # Its three convolutions and two dense layers, with as many parameters as the capsules.
        widths: dict[str, Any] = {"channels": (32, 32, 8), "hidden": (118, 64)}
        return CapsNetCNN(num_classes=10, in_channels=1, image_size=image_size, **widths)
    return TrunkCNN(image_size=image_size, hidden=160 if name == DENSE else None)


class Fitted(NamedTuple):
    """A trained network and how it was chosen.

    Attributes:
        model: as it was at `step`.
        lr: learning rate.
        step: at which the validation error was lowest.
        validation: that error, in percent.
    """

    model: Model
    lr: float
    step: int
    validation: float


def fit(
    name: str,
    train: ImageSet,
    validation: ImageSet,
    *,
    rates: Sequence[float],
    steps: int,
    batch_size: int,
    seed: int,
) -> Fitted:
    """Train a network with each learning rate, and keep rate and step with the lowest validation error.

    All networks get the same number of steps, with the same batches. Capsules minimize the margin loss and
    that of their reconstruction, CNNs the cross-entropy.

    Args:
        name: of the network.
        train: training images.
        validation: to choose by.
        rates: learning rates.
        steps: of Adam, with a rate that falls to 0 as a cosine.
        batch_size: images of a step.
        seed: of weights and batches.
    """
    images = train.images.float() / 255
    best: Fitted | None = None
    for rate in rates:
        torch.manual_seed(seed)
        model = build(name, images.shape[-1])
        optimizer = torch.optim.Adam(model.parameters(), lr=rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        generator = torch.Generator().manual_seed(seed)
        for step in range(1, steps + 1):
            batch = torch.randint(len(images), (batch_size,), generator=generator)
            loss = objective(model, images[batch], train.labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if step % max(1, steps // VALIDATIONS) == 0:
                error = error_rate(model, validation)
                if best is None or error < best.validation:
                    best = Fitted(deepcopy(model), rate, step, error)
    assert best is not None
    return best


def objective(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """The loss of a batch: that of the 2017 paper for capsules, cross-entropy for a CNN."""
    if not isinstance(model, CapsNet):
        return F.cross_entropy(model(images).logits, labels)
    output = model(images, labels)
    assert output.reconstruction is not None
    return margin_loss(output.scores, labels) + reconstruction_loss(output.reconstruction, images)


@torch.no_grad()
def error_rate(model: Model, test: ImageSet) -> float:
    """The error in percent."""
    model.eval()
    wrong = 0
    for images, labels in zip(test.images.split(250), test.labels.split(250)):
        wrong += int((model(images.float() / 255).scores.argmax(1) != labels).sum())
    model.train()
    return 100 * wrong / len(test)

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from torchcaps.data.imageset import ImageSet
from torchcaps.losses import (
    SpreadMarginSchedule,
    activation_cross_entropy,
    margin_loss,
    reconstruction_loss,
    spread_loss,
)
from torchcaps.models import CapsuleModel, Model, Output
from torchcaps.training.metrics import all_correct
from torchcaps.training.recipe import LossPart, Recipe


class Scored(NamedTuple):
    """What the objective says of a batch: its mean loss, and how many images had all their labels right."""

    loss: Tensor
    right: Tensor


class Objective(nn.Module):
    """A network together with its loss: what data parallelism wraps and `torch.compile` compiles.

    Args:
        model: the network.
        loss: name and weights of the losses.

    Example:
        >>> from torchcaps.models import create_model
        >>> objective = Objective(create_model("pooled_cnn"), LossPart())
        >>> objective(torch.rand(4, 1, 28, 28), torch.tensor([3, 1, 4, 1])).loss.shape
        torch.Size([])
    """

    def __init__(self, model: Model, loss: LossPart) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.spread_margin = SpreadMarginSchedule(loss.margin_kind, steps=loss.margin_steps)

    def forward(self, images: Tensor, labels: Tensor, step: int = 0, objects: Tensor | None = None) -> Scored:
        """Score a batch.

        Args:
            images: `[B, C, H, W]`.
            labels: `[B]`, or `[B, K]` where an image holds K objects.
            step: training step, for the margin of the spread loss.
            objects: what the decoder shall draw for each label, `[B, K, C, H, W]`; the images if not given.
        """
        output = self.model(images, labels if labels.ndim == 1 else labels[:, 0])
        loss = self.classification(output, labels, step)
        if self.loss.reconstruction:
            loss = loss + self.reconstruction(output, images, labels, objects)
        return Scored(loss, all_correct(output.scores.detach(), labels).sum())

    def classification(self, output: Output, labels: Tensor, step: int) -> Tensor:
        """The loss of the scores, mean over the batch."""
        if self.loss.name == "cross_entropy":
            columns = labels.unsqueeze(1) if labels.ndim == 1 else labels
            # Several objects share the probability evenly.
            losses = [activation_cross_entropy(output.logits, column) for column in columns.unbind(1)]
            return torch.stack(losses).mean()
        if self.loss.name == "spread":
            return spread_loss(output.scores, labels, margin=self.spread_margin(step))
        presence = labels
        if labels.ndim == 2:
            presence = torch.zeros_like(output.scores).scatter(1, labels, 1.0)
        return margin_loss(output.scores, presence, absent_weight=self.loss.absent_weight)

    def reconstruction(
        self, output: Output, images: Tensor, labels: Tensor, objects: Tensor | None
    ) -> Tensor:
        """The loss of what the decoder draws; each of several objects is drawn from its own capsule alone."""
        weight = self.loss.reconstruction
        drawn = output.reconstruction
        if drawn is None:
            raise ValueError("loss.reconstruction needs a model with a decoder; set loss.reconstruction=0")
        if labels.ndim == 1:
            return reconstruction_loss(drawn, images, weight=weight)
        assert isinstance(self.model, CapsuleModel)
        assert output.capsules is not None
        assert objects is not None
        loss = reconstruction_loss(drawn, objects[:, 0], weight=weight)
        for place in range(1, labels.shape[1]):
            drawn = self.model.reconstruct(output.capsules, labels[:, place])
            loss = loss + reconstruction_loss(drawn, objects[:, place], weight=weight)
        return loss


def check_fit(recipe: Recipe, model: Model, train_set: ImageSet) -> None:
    """Refuse a loss that the model or the data cannot serve, before the first step and with the remedy."""
    loss, preprocess = recipe.loss, recipe.data.preprocess
    if loss.name == "spread" and train_set.labels.ndim == 2:
        raise ValueError("the spread loss takes one class per image; use margin or cross_entropy")
    if not loss.reconstruction:
        return
    if getattr(model, "decoder", None) is None:
        raise ValueError(f"{recipe.model.name} has no decoder: set loss.reconstruction=0")
    if preprocess.get("standardize"):
        raise ValueError("a decoder draws pixels in 0..1: standardized images need loss.reconstruction=0")
    if train_set.labels.ndim == 2:
        if "parts" not in train_set.metadata:
            raise ValueError(f"{recipe.data.name} does not know its objects alone: set loss.reconstruction=0")
        if any(preprocess.get(name) for name in ("resize", "translate", "crop")):
            raise ValueError("objects alone are drawn where they are: no resize, translate or crop with them")

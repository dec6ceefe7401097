from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from torchcaps.losses import (
    SpreadMarginSchedule,
    activation_cross_entropy,
    margin_loss,
    reconstruction_loss,
    spread_loss,
)
from torchcaps.models import Output
from torchcaps.models.base import softmax_output
from torchcaps.training.metrics import all_correct, class_presence
from torchcaps.training.recipe import LossPart

LossFunction = Callable[[Any, Tensor], Tensor]


class Scored(NamedTuple):
    """The mean loss of a batch, and how many images had all their labels right."""

    loss: Tensor
    right: Tensor


class Objective(nn.Module):
    """A network together with its loss: what data parallelism wraps and `torch.compile` compiles.

    Args:
        model: the network; it returns `Output`, or logits `[B, classes]`.
        loss: name and weights of the losses.
        custom: used in place of the classification loss that `loss` names: a function of what the model
            returned and of the labels, which gives the mean over the batch.

    Example:
        >>> from torchcaps.models import create_model
        >>> objective = Objective(create_model("pooled_cnn"), LossPart())
        >>> objective(torch.rand(4, 1, 28, 28), torch.tensor([3, 1, 4, 1])).loss.shape
        torch.Size([])
    """

    def __init__(self, model: nn.Module, loss: LossPart, custom: LossFunction | None = None) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.custom = custom
        self.spread_margin = SpreadMarginSchedule(loss.margin_kind, steps=loss.margin_steps)

    def forward(self, images: Tensor, labels: Tensor, step: int = 0, objects: Tensor | None = None) -> Scored:
        """Score a batch.

        Args:
            images: `[B, C, H, W]`.
            labels: `[B]`, or `[B, K]` where an image holds K objects.
            step: training step, for the margin of the spread loss.
            objects: what the decoder should draw for each label, `[B, K, C, H, W]`; by default the images.
        """
        if self.loss.reconstruction:
            returned = self.model(images, labels if labels.ndim == 1 else labels[:, 0])
        else:
            returned = self.model(images)
        output = as_output(returned)
        loss = self.classification(returned, labels, step)
        if self.loss.reconstruction:
            loss = loss + self.reconstruction(output, images, labels, objects)
        return Scored(loss, all_correct(output.scores.detach(), labels).sum())

    def classification(self, returned: Any, labels: Tensor, step: int) -> Tensor:
        """The classification loss, mean over the batch."""
        if self.custom is not None:
            return self.custom(returned, labels)
        output = as_output(returned)
        if self.loss.name == "cross_entropy":
            columns = labels.unsqueeze(1) if labels.ndim == 1 else labels
            # Several objects share the probability evenly.
            losses = [activation_cross_entropy(output.logits, column) for column in columns.unbind(1)]
            return torch.stack(losses).mean()
        if self.loss.name == "spread":
            return spread_loss(output.scores, labels, margin=self.spread_margin(step))
        target = labels if labels.ndim == 1 else class_presence(labels, output.scores.shape[1])
        return margin_loss(output.scores, target, absent_weight=self.loss.absent_weight)

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
        assert output.capsules is not None
        assert objects is not None
        reconstruct: Callable[..., Tensor] = self.model.reconstruct  # type: ignore[assignment]
        loss = reconstruction_loss(drawn, objects[:, 0], weight=weight)
        for place in range(1, labels.shape[1]):
            drawn = reconstruct(output.capsules, labels[:, place])
            loss = loss + reconstruction_loss(drawn, objects[:, place], weight=weight)
        return loss


def as_output(returned: Any) -> Output:
    """What a model returned as an `Output`: logits `[B, classes]` get softmax scores.

    >>> as_output(torch.zeros(1, 2)).scores
    tensor([[0.5000, 0.5000]])
    """
    if isinstance(returned, Output):
        return returned
    if isinstance(returned, Tensor) and returned.ndim == 2 and returned.is_floating_point():
        return softmax_output(returned)
    what = f"a tensor {list(returned.shape)}" if isinstance(returned, Tensor) else type(returned).__name__
    raise ValueError(f"a model must return torchcaps.Output or logits [B, classes], got {what}")

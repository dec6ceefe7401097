from __future__ import annotations

import math
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps._checks import (
    check_choice,
    check_count,
    check_floating,
    check_number,
    check_target,
    check_tensor,
)
from torchcaps._compiling import can_read

REDUCTIONS = ("mean", "sum", "none")


def margin_loss(
    scores: Tensor,
    target: Tensor,
    *,
    positive: float = 0.9,
    negative: float = 0.1,
    absent_weight: float = 0.5,
    reduction: str = "mean",
) -> Tensor:
    r"""Margin loss on capsule lengths (Sabour et al. 2017), summed over classes.

    .. math:: \sum_k T_k \max(0, m^+ - \|v_k\|)^2 + \lambda (1 - T_k) \max(0, \|v_k\| - m^-)^2

    Use the lengths directly: a softmax before it would cancel the margins.

    Args:
        scores: lengths `[B, classes]`.
        target: class numbers `[B]`, or 0/1 for every class `[B, classes]` where several are present.
        positive: :math:`m^+`.
        negative: :math:`m^-`.
        absent_weight: :math:`\lambda`.
        reduction: `"mean"` or `"sum"` over the batch, or `"none"`.

    Example:
        >>> margin_loss(torch.tensor([[0.9, 0.3]]), torch.tensor([0]))
        tensor(0.0200)
    """
    present = class_presence(scores, target)
    for name, value in [("positive", positive), ("negative", negative), ("absent_weight", absent_weight)]:
        check_number(name, value)
    too_short = (positive - scores).clamp(min=0).square()
    too_long = (scores - negative).clamp(min=0).square()
    return reduce_batch((present * too_short + absent_weight * (1 - present) * too_long).sum(1), reduction)


def spread_loss(scores: Tensor, target: Tensor, *, margin: float = 0.9, reduction: str = "mean") -> Tensor:
    r"""Spread loss (Hinton et al. 2018): the right activation leads every other by a margin.

    .. math:: \sum_{i \ne t} \max(0, m - (a_t - a_i))^2

    Args:
        scores: activations `[B, classes]`.
        target: class numbers `[B]`.
        margin: m, which training raises from 0.2 to 0.9 (`SpreadMarginSchedule`).
        reduction: `"mean"` or `"sum"` over the batch, or `"none"`.

    Example:
        >>> spread_loss(torch.tensor([[0.9, 0.2, 0.0]]), torch.tensor([0]), margin=0.9)
        tensor(0.0400)
    """
    check_tensor("scores", scores, "B classes")
    check_target(target, scores)
    check_number("margin", margin)
    target = target.long().unsqueeze(1)
    gap = (margin - (scores.gather(1, target) - scores)).clamp(min=0).square()
    # The target class itself would add a constant m².
    return reduce_batch(gap.scatter(1, target, 0.0).sum(1), reduction)


def reconstruction_loss(
    reconstruction: Tensor, images: Tensor, *, weight: float = 0.0005, reduction: str = "mean"
) -> Tensor:
    """Squared error, **summed** over pixels, times a small weight.

    Args:
        reconstruction: `[B, C, H, W]`.
        images: the same shape.
        weight: 0.0005 in the paper.
        reduction: `"mean"` or `"sum"` over the batch, or `"none"`.

    Example:
        >>> reconstruction_loss(torch.ones(2, 1, 28, 28), torch.zeros(2, 1, 28, 28))
        tensor(0.3920)
    """
    check_floating("reconstruction", reconstruction, 2)
    check_floating("images", images, 2)
    check_number("weight", weight)
    if reconstruction.shape != images.shape:
        wanted, got = list(images.shape), list(reconstruction.shape)
        raise ValueError(f"reconstruction must have the images' shape {wanted}, got {got}")
    return weight * reduce_batch((reconstruction - images).square().flatten(1).sum(1), reduction)


def activation_cross_entropy(logits: Tensor, target: Tensor, *, reduction: str = "mean") -> Tensor:
    r"""Cross-entropy over classes, taken on the activation **before** its sigmoid.

    Routing returns logits, because logits computed from saturated activations would be NaN.

    Args:
        logits: `[B, classes]`, as in `Output.logits`.
        target: class numbers `[B]`.
        reduction: `"mean"` or `"sum"` over the batch, or `"none"`.

    Example:
        >>> activation_cross_entropy(torch.tensor([[100.0, 0.0]]), torch.tensor([0]))
        tensor(0.)
    """
    check_tensor("logits", logits, "B classes")
    check_target(target, logits)
    check_choice("reduction", reduction, REDUCTIONS)
    return F.cross_entropy(logits, target.long(), reduction=reduction)


def reduce_batch(losses: Tensor, reduction: str) -> Tensor:
    """Losses `[B]` as their mean, their sum, or as they are.

    >>> reduce_batch(torch.tensor([1.0, 3.0]), "sum")
    tensor(4.)
    """
    check_choice("reduction", reduction, REDUCTIONS)
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


def class_presence(scores: Tensor, target: Tensor) -> Tensor:
    """Which classes are present, as 0 and 1 in the shape of `scores`."""
    check_tensor("scores", scores, "B classes")
    if isinstance(target, Tensor) and target.ndim == 2:
        if target.shape != scores.shape:
            raise ValueError(f"target must be [B] or {list(scores.shape)}, got {list(target.shape)}")
        check_presence(target)
        return target.to(scores.dtype)
    check_target(target, scores)
    return F.one_hot(target.long(), scores.shape[1]).to(scores.dtype)


def check_presence(target: Tensor) -> None:
    """Check that presences lie in 0..1; on the CPU only, because a GPU would have to be waited for."""
    if target.is_complex():
        raise ValueError(f"target [B, classes] must hold 0 and 1, got {target.dtype}")
    if can_read(target):
        low, high = float(target.min()), float(target.max())
        if low < 0 or high > 1:
            raise ValueError(f"target [B, classes] must hold 0 and 1, got values from {low} to {high}")


class SpreadMarginSchedule:
    r"""The margin of the spread loss over training.

    Args:
        kind: `"linear"`, from `low` to `high` over `steps` as in the paper; `"sigmoid"`, the authors'
            :math:`0.2 + 0.79\, \sigma(\min(10, \text{step}/50000 - 4))` with the time scaled so that the
            middle of the rise is at `steps / 2` (their own timing is `steps=400_000`).
        steps: over which the margin rises.
        low: where a linear rise begins.
        high: where a linear rise ends.

    Example:
        >>> margin = SpreadMarginSchedule("linear", steps=100)
        >>> round(margin(0), 3), round(margin(50), 3), round(margin(1000), 3)
        (0.2, 0.55, 0.9)
        >>> round(SpreadMarginSchedule("sigmoid", steps=400_000)(200_000), 3)
        0.595
    """

    def __init__(self, kind: str = "linear", *, steps: int, low: float = 0.2, high: float = 0.9) -> None:
        self.kind = check_choice("kind", kind, ("linear", "sigmoid"))
        self.steps = check_count("steps", steps)
        self.low, self.high = check_number("low", low), check_number("high", high)

    def __call__(self, step: int) -> float:
        """The margin at a training step."""
        if self.kind == "linear":
            return self.low + (self.high - self.low) * min(1.0, max(0.0, step / self.steps))
        return 0.2 + 0.79 / (1 + math.exp(-min(10.0, 8 * max(step, 0) / self.steps - 4)))


class MarginLoss(nn.Module):
    """`margin_loss` as a module.

    >>> MarginLoss(absent_weight=0.25)(torch.tensor([[0.9, 0.3]]), torch.tensor([0]))
    tensor(0.0100)
    """

    def __init__(
        self,
        *,
        positive: float = 0.9,
        negative: float = 0.1,
        absent_weight: float = 0.5,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)
        self.positive = check_number("positive", positive)
        self.negative = check_number("negative", negative)
        self.absent_weight = check_number("absent_weight", absent_weight)

    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        """See `margin_loss`."""
        return margin_loss(
            scores,
            target,
            positive=self.positive,
            negative=self.negative,
            absent_weight=self.absent_weight,
            reduction=self.reduction,
        )


class SpreadLoss(nn.Module):
    """`spread_loss` as a module whose margin follows a schedule by training step.

    >>> loss = SpreadLoss(SpreadMarginSchedule("linear", steps=10))
    >>> loss(torch.tensor([[0.9, 0.8]]), torch.tensor([0]))
    tensor(0.0100)
    """

    def __init__(self, schedule: Callable[[int], float], *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)
        if not callable(schedule):
            raise ValueError(
                f"schedule must map steps to margins, as SpreadMarginSchedule does, got {schedule!r}"
            )
        self.schedule = schedule
        self.step = 0

    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        """See `spread_loss`; set `step` before each call, as the training engine does."""
        return spread_loss(scores, target, margin=self.schedule(self.step), reduction=self.reduction)


class ReconstructionLoss(nn.Module):
    """`reconstruction_loss` as a module.

    >>> ReconstructionLoss()(torch.ones(2, 1, 28, 28), torch.zeros(2, 1, 28, 28))
    tensor(0.3920)
    """

    def __init__(self, *, weight: float = 0.0005, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)
        self.weight = check_number("weight", weight)

    def forward(self, reconstruction: Tensor, images: Tensor) -> Tensor:
        """See `reconstruction_loss`."""
        return reconstruction_loss(reconstruction, images, weight=self.weight, reduction=self.reduction)


class ActivationCrossEntropy(nn.Module):
    """`activation_cross_entropy` as a module.

    >>> ActivationCrossEntropy()(torch.tensor([[100.0, 0.0]]), torch.tensor([0]))
    tensor(0.)
    """

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = check_choice("reduction", reduction, REDUCTIONS)

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        """See `activation_cross_entropy`."""
        return activation_cross_entropy(logits, target, reduction=self.reduction)

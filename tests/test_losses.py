from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from support import references
from torchcaps.losses import (
    ActivationCrossEntropy,
    MarginLoss,
    ReconstructionLoss,
    SpreadLoss,
    SpreadMarginSchedule,
    activation_cross_entropy,
    margin_loss,
    reconstruction_loss,
    spread_loss,
)

scores = torch.rand(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
target = torch.tensor([0, 4, 2, 2, 1, 3])


def test_margin_loss_equals_the_formula() -> None:
    assert margin_loss(scores, target).item() == pytest.approx(
        references.margin(scores.numpy(), target.numpy())
    )
    for several in (F.one_hot(target, 5), F.one_hot(target, 5).bool(), F.one_hot(target, 5).float()):
        torch.testing.assert_close(margin_loss(scores, several), margin_loss(scores, target))


def test_margin_loss_of_two_digits_asks_for_both() -> None:
    both = torch.tensor([[1, 1, 0]])
    assert margin_loss(torch.tensor([[0.9, 0.9, 0.1]]), both).item() == 0
    torch.testing.assert_close(margin_loss(torch.tensor([[0.9, 0.4, 0.1]]), both), torch.tensor(0.25))


@pytest.mark.parametrize("margin", [0.2, 0.9])
def test_spread_loss_equals_the_formula(margin: float) -> None:
    wanted = references.spread(scores.numpy(), target.numpy(), margin)
    assert spread_loss(scores, target, margin=margin).item() == pytest.approx(wanted)


def test_spread_loss_with_margin_one_is_the_squared_hinge_loss() -> None:
    """The paper says so; torch divides the sum by the number of classes."""
    hinge = F.multi_margin_loss(scores, target, p=2, margin=1.0)
    torch.testing.assert_close(spread_loss(scores, target, margin=1.0), scores.shape[1] * hinge)


def test_reconstruction_loss_equals_the_formula() -> None:
    drawn, images = np.random.default_rng(0).random((2, 4, 2, 5, 5))
    ours = reconstruction_loss(torch.tensor(drawn), torch.tensor(images)).item()
    assert ours == pytest.approx(0.0005 * ((drawn - images) ** 2).sum() / 4)


def test_cross_entropy_survives_saturation() -> None:
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    loss = activation_cross_entropy(logits, torch.tensor([1]))
    loss.backward()
    assert loss.item() == 400
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_any_whole_type_will_do_for_labels(dtype: torch.dtype) -> None:
    for loss in (margin_loss, spread_loss, activation_cross_entropy):
        torch.testing.assert_close(loss(scores, target.to(dtype)), loss(scores, target))


def test_modules_equal_their_functions() -> None:
    images = torch.rand(2, 2, 1, 3, 3)
    spread = SpreadLoss(SpreadMarginSchedule(steps=10))
    spread.step = 5
    for module, function, arguments in [
        (
            MarginLoss(absent_weight=0.25),
            lambda s, t: margin_loss(s, t, absent_weight=0.25),
            (scores, target),
        ),
        (spread, lambda s, t: spread_loss(s, t, margin=0.55), (scores, target)),
        (ActivationCrossEntropy(), activation_cross_entropy, (scores, target)),
        (ReconstructionLoss(weight=2), lambda r, i: reconstruction_loss(r, i, weight=2), tuple(images)),
    ]:
        torch.testing.assert_close(module(*arguments), function(*arguments))


@pytest.mark.parametrize("loss", [margin_loss, spread_loss, activation_cross_entropy])
def test_losses_have_the_slope_of_their_formula(loss: Any) -> None:
    assert torch.autograd.gradcheck(lambda s: loss(s, target), scores.clone().requires_grad_())


def test_margins_rise_as_published() -> None:
    linear, sigmoid = SpreadMarginSchedule(steps=100), SpreadMarginSchedule("sigmoid", steps=400_000)
    assert [linear(step) for step in (-1, 0, 50, 100, 9999)] == pytest.approx([0.2, 0.2, 0.55, 0.9, 0.9])
    for step in (0, 50_000, 200_000, 700_000, 10_000_000):
        assert sigmoid(step) == pytest.approx(0.2 + 0.79 / (1 + np.exp(-min(10.0, step / 50_000 - 4))))


@pytest.mark.parametrize("loss", [margin_loss, spread_loss, activation_cross_entropy])
@pytest.mark.parametrize(
    ("bad_scores", "bad_target", "says"),
    [
        (scores[0], target, "must be "),
        (torch.ones(6, 5, dtype=torch.int64), target, "must be a floating"),
        ([0.5], target, "must be a tensor"),
        (scores, target + 1, r"target must lie in 0\.\.4, got values from 1 to 5"),
        (scores, target - 1, "target must lie in"),
        (scores, target[:5], r"target must be \[B=6\]"),
        (scores, target.bool(), "target must be a tensor of whole"),
        (scores, target.float(), "target must be a tensor of whole"),
        (scores, [0, 1], "target must be a tensor of whole"),
        (scores, None, "target must be a tensor of whole"),
        (scores, target[:, None], "target must be"),
    ],
)
def test_wrong_scores_and_labels_are_refused_by_name(
    loss: Any, bad_scores: Any, bad_target: Any, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        loss(bad_scores, bad_target)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: margin_loss(scores, torch.full((6, 5), 2)), r"target \[B, classes\] must hold 0 and 1"),
        (lambda: margin_loss(scores, torch.ones(6, 5) + 0j), r"target \[B, classes\] must hold 0 and 1"),
        (lambda: margin_loss(scores, target, positive="high"), "positive"),
        (lambda: MarginLoss(absent_weight=None), "absent_weight"),
        (lambda: MarginLoss(negative=-0.1), "negative"),
        (lambda: spread_loss(scores, target, margin="wide"), "margin"),
        (lambda: spread_loss(scores, target, margin=float("nan")), "margin"),
        (lambda: SpreadLoss(0.5), "schedule"),
        (lambda: SpreadMarginSchedule("liner", steps=3), "did you mean 'linear'"),
        (lambda: SpreadMarginSchedule(steps=0), "steps"),
        (lambda: SpreadMarginSchedule(steps=3, low="x"), "low"),
        (
            lambda: reconstruction_loss(torch.ones(2, 1, 3, 3), torch.ones(2, 1, 3, 4)),
            "reconstruction must have",
        ),
        (lambda: reconstruction_loss(None, torch.ones(2, 1, 3, 3)), "reconstruction must be a tensor"),
        (
            lambda: reconstruction_loss(torch.ones(2, 9), torch.ones(2, 9, dtype=torch.uint8)),
            "images must be a",
        ),
        (lambda: reconstruction_loss(torch.ones(3), torch.ones(3)), "reconstruction must have at least 2"),
        (lambda: reconstruction_loss(torch.ones(2, 9), torch.ones(2, 9), weight="x"), "weight"),
        (lambda: ReconstructionLoss(weight=-1), "weight"),
    ],
)
def test_wrong_options_are_refused_by_name(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize(
    "loss",
    [
        lambda **o: margin_loss(torch.rand(5, 3, generator=seeded()), torch.arange(5) % 3, **o),
        lambda **o: spread_loss(torch.rand(5, 3, generator=seeded()), torch.arange(5) % 3, **o),
        lambda **o: activation_cross_entropy(torch.rand(5, 3, generator=seeded()), torch.arange(5) % 3, **o),
        lambda **o: reconstruction_loss(
            torch.rand(5, 1, 4, 4, generator=seeded()), torch.zeros(5, 1, 4, 4), **o
        ),
    ],
)
def test_reductions_are_those_of_torch(loss: Any) -> None:
    each = loss(reduction="none")
    assert each.shape == (5,)
    torch.testing.assert_close(loss(reduction="mean"), each.mean())
    torch.testing.assert_close(loss(reduction="sum"), each.sum())
    torch.testing.assert_close(loss(), each.mean())
    with pytest.raises(ValueError, match="unknown reduction 'men': did you mean 'mean'"):
        loss(reduction="men")


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(3)

"""Couplings to begin with, which dynamic routing takes as log priors."""

from itertools import pairwise

import pytest
import torch

from torchcaps import kernels
from torchcaps.routing import DynamicRouting
from torchcaps.routing.dynamic import logits_of
from torchcaps.votes import ConvVotes, SharedVotes, Votes, agreement

both_updates = pytest.mark.parametrize("update", ["accumulate", "fixed_point"])


def twins() -> Votes:
    """Votes for three parents of one type, which nothing but a start can tell apart."""
    return SharedVotes(torch.randn(2, 12, 4), torch.randn(1, 4, 5).expand(3, 4, 5).contiguous())


def shares(votes: Votes, *, leaning: float = 2.0) -> torch.Tensor:
    return votes.softmax(leaning * torch.randn(votes.batch, votes.positions, votes.children, votes.parents))


@both_updates
def test_a_start_is_a_log_prior_in_every_iteration(update: str) -> None:
    votes = twins()
    start = shares(votes)
    steps = DynamicRouting(iterations=4, update=update).history(votes, torch.ones(2, 12), start)
    assert steps[0].coupling is not None
    torch.testing.assert_close(steps[0].coupling, start)
    logits = start.log()
    for before, after in pairwise(steps):
        agreed = agreement(votes.tensor(), before.pose)
        logits = (logits if update == "accumulate" else start.log()) + agreed
        torch.testing.assert_close(after.coupling, logits.softmax(-1))


@both_updates
def test_what_tells_equal_parents_apart_is_not_forgotten(update: str) -> None:
    """With votes of nothing there is nothing to learn: the couplings stay what they were."""
    votes = SharedVotes(torch.zeros(1, 5, 4), torch.randn(3, 4, 5))
    start = shares(votes)
    routed = DynamicRouting(iterations=3, update=update)(votes, torch.ones(1, 5), start, coupling=True)
    torch.testing.assert_close(routed.coupling, start)


@both_updates
def test_even_shares_are_as_good_as_no_start(update: str) -> None:
    """At borders too, where a child has fewer parents, and outside the image, where there is none."""
    votes = ConvVotes(
        torch.randn(2, 5, 5, 2, 4), torch.randn(18, 3, 4, 5), kernel_size=3, stride=2, padding=1
    )
    even = votes.uniform()
    assert torch.equal(logits_of(votes, even), torch.zeros_like(even))
    routing, present = DynamicRouting(update=update), torch.ones(2, 50)
    given, none = (routing(votes, present, each, coupling=True) for each in (even, None))
    torch.testing.assert_close(given.coupling, none.coupling)
    torch.testing.assert_close(given.pose, none.pose)


def test_shares_of_nothing_are_finite_and_so_are_gradients() -> None:
    votes = twins()
    hard = votes.hard(torch.randn(2, 1, 12, 3)).requires_grad_()
    for update in ("accumulate", "fixed_point"):
        routed = DynamicRouting(iterations=3, update=update)(votes, torch.ones(2, 12), hard)
        assert all(values.isfinite().all() for values in routed if values is not None)
        (slope,) = torch.autograd.grad(routed.pose.square().sum(), hard)
        assert slope.isfinite().all()


def test_gradients_reach_a_start() -> None:
    votes = SharedVotes(torch.randn(1, 4, 3).double(), torch.randn(2, 3, 4).double())
    logits = torch.randn(1, 1, 4, 2).double().requires_grad_()
    routing = DynamicRouting(iterations=3).double()

    def pose(logits: torch.Tensor) -> torch.Tensor:
        return routing(votes, torch.ones(1, 4).double(), logits.softmax(-1)).pose

    assert torch.autograd.gradcheck(pose, (logits,))


def test_half_precision_starts_are_read_in_full() -> None:
    votes = twins()
    hard = votes.hard(torch.randn(2, 1, 12, 3))
    full, half = (
        DynamicRouting()(votes, torch.ones(2, 12), each, coupling=True).coupling
        for each in (hard, hard.half())
    )
    assert full is not None
    torch.testing.assert_close(half, full)


@both_updates
def test_asking_for_no_couplings_gives_the_same_capsules(update: str) -> None:
    """The fused kernel knows no start, so it must not be what answers."""
    votes = twins()
    start, present = shares(votes), torch.ones(2, 12)
    routing = DynamicRouting(update=update)
    fast = routing(votes, present, start, coupling=False)
    with kernels.disabled():
        plain = routing(votes, present, start)
        without = routing(votes, present)
    torch.testing.assert_close(fast.pose, plain.pose)
    assert not torch.allclose(fast.pose, without.pose)

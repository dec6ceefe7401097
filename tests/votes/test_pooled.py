"""Sums over votes that are computed from sums over poses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from torchcaps import ClassCaps, ConvCaps, DenseCaps, SharedCaps
from torchcaps.capsules import Capsules
from torchcaps.poses import MatrixPose, PoseSpace, SimilarityPose, VectorPose
from torchcaps.routing.base import even_gradient
from torchcaps.votes import (
    ClassVotes,
    ConvVotes,
    DenseVotes,
    SharedVotes,
    Votes,
    centered_sum,
    weighted_sum,
)

SPACES = [VectorPose(6, 10), MatrixPose(16, 16), SimilarityPose(4, 4)]


def shared(space: PoseSpace, dtype: torch.dtype = torch.float64) -> SharedVotes:
    weight = torch.randn(3, *space.weight_shape, dtype=dtype)
    return SharedVotes(torch.randn(2, 20, space.in_dim, dtype=dtype), weight, space)


def by_class(space: PoseSpace, dtype: torch.dtype = torch.float64) -> ClassVotes:
    weight = torch.randn(4, 3, *space.weight_shape, dtype=dtype)
    pose = torch.randn(2, 5, 3, 4, space.in_dim, dtype=dtype)
    return ClassVotes(pose, weight, space, coordinates=space.coordinates() is not None)


@pytest.mark.parametrize("make", [shared, by_class])
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_sums_are_those_of_the_votes(make, space: PoseSpace) -> None:
    torch.manual_seed(0)
    votes: Votes = make(space)
    share = torch.rand(2, 1, votes.children, 3, dtype=torch.float64)
    torch.testing.assert_close(votes.total(share), weighted_sum(votes.tensor(), share))
    share[..., 1] = 0  # a parent that nobody votes for
    share = share / share.sum(2, keepdim=True).clamp(min=1e-9)
    torch.testing.assert_close(votes.mean(share), weighted_sum(votes.tensor(), share))


@pytest.mark.parametrize("make", [shared, by_class])
def test_no_vote_is_computed(make, monkeypatch: pytest.MonkeyPatch) -> None:
    votes = make(MatrixPose(16, 16))
    monkeypatch.setattr(type(votes), "compute", None)
    assert votes.total(votes.uniform()).shape == votes.mean(votes.uniform()).shape == (2, 1, 3, 16)


def test_layers_without_agreement_compute_no_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Self-routing computes one number per child and parent, and uniform routing nothing."""
    largest = []
    compute = ClassVotes.compute

    def recorded(self: ClassVotes, poses: Tensor) -> Tensor:
        largest.append(self.pose_dim)
        return compute(self, poses)

    monkeypatch.setattr(ClassVotes, "compute", recorded)
    children = Capsules(torch.randn(2, 5, 3, 4, 16), torch.rand(2, 5, 3, 4))
    ClassCaps(4, 3, routing="uniform")(children)
    assert largest == []
    ClassCaps(4, 3, routing="self_routing")(children)
    assert largest == [1]
    ClassCaps(4, 3, routing="em")(children, coupling=True)
    assert largest == [1, 16]


def dense(space: PoseSpace, dtype: torch.dtype = torch.float64) -> DenseVotes:
    weight = torch.randn(7, 3, *space.weight_shape, dtype=dtype)
    return DenseVotes(torch.randn(2, 7, space.in_dim, dtype=dtype), weight, space)


def fields(space: PoseSpace, dtype: torch.dtype = torch.float64) -> ConvVotes:
    weight = torch.randn(18, 3, *space.weight_shape, dtype=dtype)
    pose = torch.randn(2, 5, 4, 2, space.in_dim, dtype=dtype)
    return ConvVotes(pose, weight, space, kernel_size=3, stride=2, padding=1)


@pytest.mark.parametrize("make", [shared, by_class, dense, fields])
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_shares_that_all_parents_have_are_applied_to_poses(make, space: PoseSpace) -> None:
    torch.manual_seed(0)
    votes: Votes = make(space)
    share = torch.rand(2, votes.positions, votes.children, 1, dtype=torch.float64).softmax(2).requires_grad_()
    pose, weight = votes.pose.requires_grad_(), votes.weight.requires_grad_()
    outputs = votes.total(share), weighted_sum(votes.tensor(), share.expand(-1, -1, -1, 3))
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(votes.mean(share), outputs[1])
    slopes = [torch.autograd.grad(each.square().sum(), (pose, weight, share)) for each in outputs]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("average", [False, True])
def test_uniform_routing_computes_no_votes(average: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for votes in (DenseVotes, ConvVotes):
        monkeypatch.setattr(votes, "compute", None)
    children = Capsules(torch.randn(2, 5, 4, 2, 16), torch.rand(2, 5, 4, 2))
    for pose in ("vector", "matrix"):
        options = {"pose": pose, "routing": "uniform", "average": average}
        assert ConvCaps(2, 3, in_dim=16, out_dim=16, kernel_size=3, **options)(children).pose.isfinite().all()
        assert DenseCaps(40, 16, 3, 16, **options)(children.flatten()).pose.isfinite().all()


def test_a_pose_space_from_elsewhere_is_summed_vote_by_vote() -> None:
    class Moved(VectorPose):
        def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
            return super().compose(pose, weight) + 1

    torch.manual_seed(0)
    votes = shared(Moved(6, 10))
    share = torch.rand(2, 1, 20, 3, dtype=torch.float64)
    torch.testing.assert_close(votes.total(share), weighted_sum(votes.tensor(), share))


def test_an_empty_layer_has_no_votes() -> None:
    routed = SharedCaps(8, 3, 16, routing="self_routing")(Capsules(torch.zeros(2, 0, 8), torch.zeros(2, 0)))
    assert (routed.pose == 0).all()


@pytest.mark.parametrize("make", [shared, by_class])
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_gradients_are_those_of_the_votes(make, space: PoseSpace) -> None:
    torch.manual_seed(0)
    votes: Votes = make(space)
    gradients = []
    for pooled in (True, False):
        pose, weight = votes.pose.detach().requires_grad_(), votes.weight.detach().requires_grad_()
        logits = torch.randn(
            2, 1, votes.children, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64
        ).requires_grad_()
        votes.pose, votes.weight, votes._votes = pose, weight, None
        share = logits.softmax(2)
        mean = votes.mean(share) if pooled else weighted_sum(votes.tensor(), share)
        gradients.append(torch.autograd.grad(mean.square().sum(), (pose, weight, logits)))
    for ours, plain in zip(*gradients):
        torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("make", [shared, by_class])
def test_slopes_of_shares_are_accurate_where_votes_nearly_agree(make) -> None:
    """Poses of 1e3 that differ by 1e-2: in float32, the products with them differ in the last digits only."""
    torch.manual_seed(0)
    votes: Votes = make(VectorPose(6, 10), torch.float32)
    votes.pose = 1e3 + 1e-2 * torch.randn_like(votes.pose)
    if isinstance(votes, ClassVotes):
        votes.coordinates = False
        votes.weight = votes.weight[:1].expand_as(votes.weight)  # rows agree too
    logits = torch.randn(2, 1, votes.children, 3)

    def slope(each: Votes, sum_of: Callable[[Votes, Tensor], Tensor]) -> Tensor:
        given = logits.to(each.pose.dtype).requires_grad_()
        share = even_gradient(given.softmax(2), 2)
        return torch.autograd.grad(sum_of(each, share).sum(), given)[0].double()

    def vote_by_vote(each: Votes, share: Tensor) -> Tensor:
        return centered_sum(each.tensor(), share)

    exact = slope(votes.double(), vote_by_vote)
    errors = [
        float((slope(votes, sum_of) - exact).norm() / exact.norm())
        for sum_of in (type(votes).mean, vote_by_vote, type(votes).total)
    ]
    pooled, plain, careless = errors
    assert pooled < 1.5 * plain
    if isinstance(votes, SharedVotes):
        assert careless > 3 * pooled  # rows of a class layer are rounded apart, whatever the order

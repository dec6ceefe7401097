"""Self-attention routing against loops over its formula, and what follows from it."""

import math

import pytest
import torch

from torchcaps import DenseCaps
from torchcaps.routing import SelfAttentionRouting, UniformRouting
from torchcaps.votes import ConvVotes, DenseVotes

double = torch.float64


def by_loops(vote: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """The poses of the parents from votes `[I, J, D]` and biases `[I, J]`, number by number."""
    children, parents, size = vote.shape
    pose = torch.zeros(parents, size, dtype=vote.dtype)
    for i in range(children):
        agreement = [
            sum(float(vote[i, j] @ vote[k, j]) for k in range(children)) / math.sqrt(size)
            for j in range(parents)
        ]
        top = max(agreement)
        weights = [math.exp(a - top) for a in agreement]
        for j in range(parents):
            pose[j] += (weights[j] / sum(weights) + float(bias[i, j])) * vote[i, j]
    norm = pose.norm(dim=-1, keepdim=True)
    return (1 - torch.exp(-norm)) * pose / norm


def test_equals_the_formula() -> None:
    torch.manual_seed(0)
    weight, pose = torch.randn(6, 4, 3, 5, dtype=double), torch.randn(1, 6, 3, dtype=double)
    routing = SelfAttentionRouting(parents=4, rows=(6,)).double()
    with torch.no_grad():
        routing.bias.normal_()
    routed = routing(DenseVotes(pose, weight), torch.ones(1, 6, dtype=double), coupling=True)
    wanted = by_loops(torch.einsum("id,ijde->ije", pose[0], weight), routing.bias.detach())
    torch.testing.assert_close(routed.pose[0, 0], wanted)
    torch.testing.assert_close(routed.activation[0, 0], wanted.norm(dim=-1))
    torch.testing.assert_close(routed.coupling.sum(-1)[0, 0], 1 + routing.bias.sum(-1))


def test_a_convolution_without_overlap_is_one_dense_layer_per_field() -> None:
    torch.manual_seed(0)
    weight, pose = torch.randn(8, 3, 2, 4, dtype=double), torch.randn(1, 4, 4, 2, 2, dtype=double)
    routing = SelfAttentionRouting(parents=3, rows=(8,)).double()
    with torch.no_grad():
        routing.bias.normal_()
    votes = ConvVotes(pose, weight, kernel_size=2, stride=2)
    grid = routing(votes, torch.ones(1, 32, dtype=double)).pose[0]
    for position, field in enumerate(votes.unfold()[0]):
        torch.testing.assert_close(
            grid[position], by_loops(torch.einsum("id,ijde->ije", field, weight), routing.bias.detach())
        )


def test_votes_that_cancel_are_shared_evenly() -> None:
    pose = torch.tensor([[[1.0, 2.0], [-1.0, -2.0]]])
    votes = DenseVotes(pose, torch.eye(2).repeat(2, 3, 1, 1))
    routed = SelfAttentionRouting(parents=3)(votes, torch.ones(1, 2), coupling=True)
    torch.testing.assert_close(
        routed.coupling, UniformRouting()(votes, torch.ones(1, 2), coupling=True).coupling
    )


def test_a_start_is_a_prior() -> None:
    pose = torch.tensor([[[1.0, 2.0], [-1.0, -2.0]]])
    votes = DenseVotes(pose, torch.eye(2).repeat(2, 3, 1, 1))
    start = torch.tensor([[[[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]]]])
    routed = SelfAttentionRouting(parents=3)(votes, torch.ones(1, 2), start, coupling=True)
    torch.testing.assert_close(routed.coupling, start)


def test_a_parent_whose_votes_agree_gets_more() -> None:
    weight = torch.stack(
        [torch.eye(2).repeat(4, 1, 1), torch.eye(2) * torch.tensor([1, -1, 1, -1.0])[:, None, None]], 1
    )
    routed = SelfAttentionRouting(parents=2, rows=(4,))(
        DenseVotes(torch.ones(1, 4, 2), weight), torch.ones(1, 4), coupling=True
    )
    assert bool((routed.coupling[..., 0] > 0.9).all())
    assert routed.activation[0, 0, 0] > routed.activation[0, 0, 1]


def test_the_layer_gives_it_a_bias_per_child_and_parent() -> None:
    assert DenseCaps(6, 8, 3, 4, routing="self_attention").routing.bias.shape == (6, 3)


def test_an_unknown_squash_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown squash 'soft'"):
        SelfAttentionRouting(squash="soft")


def test_a_bias_of_another_layer_is_refused() -> None:
    children = torch.randn(2, 5, 8)
    for rows in ((4,), (1,)):
        layer = DenseCaps(5, 8, 3, 8, routing=SelfAttentionRouting(3, rows=rows))
        with pytest.raises(ValueError, match=r"the routing was built for rows=.*, the layer has rows=\(5,\)"):
            layer(children)
    with pytest.raises(ValueError, match="rows must be a tuple of whole numbers"):
        SelfAttentionRouting(3, rows=5)

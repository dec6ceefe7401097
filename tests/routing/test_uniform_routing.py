import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, DenseCaps, SharedCaps, squash
from torchcaps.routing import UniformRouting
from torchcaps.testing import assert_finite_everywhere, assert_gradcheck
from torchcaps.votes import DenseVotes


def test_average_is_the_mean_of_the_votes() -> None:
    layer = SharedCaps(4, 3, 5, routing="uniform", average=True)
    poses = torch.randn(2, 7, 4)
    wanted = torch.stack([squash(poses.mean(1) @ weight) for weight in layer.weight], 1)
    torch.testing.assert_close(layer(poses).pose, wanted)


def test_an_average_does_not_grow_with_the_children_and_a_sum_does() -> None:
    poses = torch.randn(2, 6, 4)
    twice = torch.cat([poses, poses], 1)
    average = SharedCaps(4, 3, 5, routing="uniform", average=True)
    total = SharedCaps(4, 3, 5, routing="uniform")
    torch.testing.assert_close(average(twice).activation, average(poses).activation)
    assert (total(twice).activation > total(poses).activation).all()


def test_average_of_many_children_is_accurate_in_float32() -> None:
    """As many children as in Aff-CapsNet, whose poses have most of their digits in common."""
    torch.manual_seed(0)
    layer = SharedCaps(8, 3, 5, routing="uniform", average=True)
    poses = 100 + 1e-3 * torch.randn(1, 4608, 8)
    wanted = layer.double()(poses.double()).pose
    torch.testing.assert_close(layer.float()(poses).pose.double(), wanted, rtol=1e-6, atol=0)


def test_votes_with_shares_of_their_own_are_averaged_under_them() -> None:
    class Uneven(DenseVotes):
        def uniform(self) -> Tensor:
            return torch.tensor([0.7, 0.3, 0.0]).expand(2, 1, 4, 3)

    votes = Uneven(torch.randn(2, 4, 5), torch.randn(4, 3, 5, 6))
    routed = UniformRouting(3)(votes, torch.ones(2, 4), coupling=True)
    wanted = squash((routed.coupling.unsqueeze(-1) * votes.tensor()).sum(2))
    torch.testing.assert_close(routed.pose, wanted)
    assert not routed.pose[..., 2, :].any()


def test_average_keeps_the_laws_of_a_layer() -> None:
    layer = DenseCaps(5, 4, 3, 6, routing="uniform", average=True)
    children = Capsules.from_vectors(torch.randn(2, 5, 4))
    assert_finite_everywhere(layer, children)
    assert_gradcheck(layer, children, fast_mode=True)


def test_average_is_true_or_false() -> None:
    with pytest.raises(ValueError, match="average must be True or False"):
        SharedCaps(4, 3, 5, routing="uniform", average="mean")

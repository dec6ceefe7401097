import pytest
import torch

from torchcaps import Capsules, DenseCaps, SharedCaps, squash
from torchcaps.testing import assert_finite_everywhere, assert_gradcheck


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


def test_average_keeps_the_laws_of_a_layer() -> None:
    layer = DenseCaps(5, 4, 3, 6, routing="uniform", average=True)
    children = Capsules.from_vectors(torch.randn(2, 5, 4))
    assert_finite_everywhere(layer, children)
    assert_gradcheck(layer, children, fast_mode=True)


def test_average_is_true_or_false() -> None:
    with pytest.raises(ValueError, match="average must be True or False"):
        SharedCaps(4, 3, 5, routing="uniform", average="mean")

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps, kernels
from torchcaps.poses import SimilarityPose
from torchcaps.testing import (
    assert_batch_independent,
    assert_child_permutation,
    assert_couplings_normalized,
    assert_finite_everywhere,
    assert_gradcheck,
    assert_gradient_accurate,
)

SPACE = SimilarityPose()


def test_a_vote_is_the_product_of_homogeneous_matrices() -> None:
    pose, weight = torch.randn(5, 4), torch.randn(5, 3, 4)
    votes = SPACE.compose(pose, weight)
    for child in range(5):
        for parent in range(3):
            product = SPACE.matrix3(pose[child]) @ SPACE.matrix3(weight[child, parent])
            torch.testing.assert_close(SPACE.matrix3(votes[child, parent]), product)


def test_a_part_tells_where_the_whole_is() -> None:
    """A part at (2, 3), turned left by 90° and twice as large: the whole, one part length ahead, is above."""
    part = SPACE.from_parts(*torch.tensor([math.pi / 2, 2.0, 2.0, 3.0]))
    relation = SPACE.from_parts(*torch.tensor([0.25, 3.0, 1.0, 0.0]))
    whole = SPACE.compose(part[None], relation[None, None])[0, 0]
    torch.testing.assert_close(SPACE.angle(whole), torch.tensor(math.pi / 2 + 0.25))
    torch.testing.assert_close(SPACE.scale(whole), torch.tensor(6.0))
    torch.testing.assert_close(whole[2:], torch.tensor([2.0, 5.0]))


def test_parts_and_inverse() -> None:
    angle, scale = torch.linspace(-3, 3, 7).double(), torch.linspace(0.1, 4, 7).double()
    pose = SPACE.from_parts(angle, scale, *torch.randn(2, 7).double())
    torch.testing.assert_close(SPACE.angle(pose), angle)
    torch.testing.assert_close(SPACE.scale(pose), scale)
    product = SPACE.matrix3(SPACE.inverse(pose)) @ SPACE.matrix3(pose)
    torch.testing.assert_close(product, torch.eye(3).double().expand(7, 3, 3))
    np.testing.assert_allclose(SPACE.matrix3(pose)[:, :2].numpy(), SPACE.matrix(pose).numpy())


def test_scale_and_angle_have_finite_slopes_at_zero() -> None:
    pose = torch.zeros(4, requires_grad=True)
    (SPACE.scale(pose) + SPACE.angle(pose)).backward()
    assert pose.grad is not None
    assert pose.grad.isfinite().all()


def test_coordinates_are_added_to_the_place() -> None:
    layer = ClassCaps(1, 1, pose="similarity", routing="em")
    still, moved = (
        ClassCaps.votes(layer, Capsules(torch.zeros(1, 2, 4, 1, 4), torch.ones(1, 2, 4, 1))),
        layer.votes(Capsules(torch.zeros(1, 2, 4, 1, 4), torch.ones(1, 2, 4, 1))),
    )
    still.coordinates = False
    added = (moved.tensor() - still.tensor())[0, 0, :, 0].view(2, 4, 4)
    torch.testing.assert_close(added[1, 3], torch.tensor([0.0, 0.0, 3.5 / 4, 1.5 / 2]))  # x, y last


LAYERS = {
    "dense": (lambda **o: DenseCaps(4, 4, 3, 4, pose="similarity", **o), (4, 4)),
    "shared": (lambda **o: SharedCaps(4, 3, 4, pose="similarity", **o), (4, 4)),
    "conv": (lambda **o: ConvCaps(2, 2, kernel_size=2, padding=1, pose="similarity", **o), (3, 2, 2, 4)),
    "class": (lambda **o: ClassCaps(2, 3, pose="similarity", **o), (2, 2, 2, 4)),
}


@pytest.mark.parametrize("routing", [{"routing": "em"}, {"routing": "em", "covariance": "rows"}], ids=str)
@pytest.mark.parametrize("geometry", LAYERS)
def test_laws(geometry: str, routing: dict[str, str]) -> None:
    make, shape = LAYERS[geometry]
    layer = make(**routing)
    children = Capsules(torch.randn(2, *shape), 0.1 + 0.8 * torch.rand(2, *shape[:-1]))
    assert_couplings_normalized(layer, children)
    assert_batch_independent(layer, children)
    assert_child_permutation(layer, children, atol=1e-4)
    assert_finite_everywhere(layer, children)
    assert_gradcheck(layer, children, fast_mode=True)
    assert_gradient_accurate(layer, children)


def test_no_kernel_takes_these_poses() -> None:
    layer = DenseCaps(4, 4, 3, 4, pose="similarity", routing="em")
    children = Capsules(torch.randn(2, 4, 4), torch.rand(2, 4))
    assert layer.routing.fused(layer.votes(children), children.activation) is None
    layer = DenseCaps(4, 4, 3, 4, pose="similarity", routing="dynamic")
    assert layer.routing.fused(layer.votes(children), children.activation) is None
    with kernels.disabled():
        plain = layer(children).pose
    torch.testing.assert_close(layer(children).pose, plain)

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps, list_pose_spaces
from torchcaps.poses import MatrixPose, PoseSpace, VectorPose, create_pose_space
from torchcaps.testing import (
    assert_batch_independent,
    assert_child_permutation,
    assert_couplings_normalized,
    assert_finite_everywhere,
    assert_gradcheck,
)
from torchcaps.votes import DenseVotes


class ShiftPose(PoseSpace):
    """A user's own space: a vote is the pose plus a learned offset, one number per dimension."""

    @property
    def weight_shape(self) -> tuple[int]:
        return (self.out_dim,)

    def initial_weight(self, *pairs: int) -> Tensor:
        return torch.randn(*pairs, self.out_dim)

    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        return pose.unsqueeze(-2) + weight

    def coordinates(self) -> tuple[int, int]:
        return 0, 1


OWN = ShiftPose(4, 4)
LAYERS = {
    "dense": (lambda **o: DenseCaps(3, 4, 2, 4, **o), (3, 4)),
    "shared": (lambda **o: SharedCaps(4, 2, 4, **o), (3, 4)),
    "conv": (lambda **o: ConvCaps(2, 3, kernel_size=2, **o), (3, 3, 2, 4)),
    "class": (lambda **o: ClassCaps(2, 3, **o), (2, 2, 2, 4)),
}


@pytest.mark.parametrize("routing", ["dynamic", "em", "kmeans", "uniform"])
@pytest.mark.parametrize("geometry", LAYERS)
def test_a_space_of_a_users_own_keeps_all_laws_in_every_geometry(geometry: str, routing: str) -> None:
    make, shape = LAYERS[geometry]
    layer = make(pose=OWN, routing=routing)
    children = Capsules(torch.randn(2, *shape), 0.1 + 0.8 * torch.rand(2, *shape[:-1]))
    assert_couplings_normalized(layer, children)
    assert_batch_independent(layer, children)
    assert_child_permutation(layer, children)
    assert_finite_everywhere(layer, children)
    assert_gradcheck(layer, children, fast_mode=True)


def test_votes_of_a_users_own_space_are_what_it_composes() -> None:
    pose, weight = torch.randn(2, 3, 4), torch.randn(3, 5, 4)
    votes = DenseVotes(pose, weight, OWN)
    assert votes.parents == 5
    torch.testing.assert_close(votes.tensor()[:, 0], pose[:, :, None] + weight)


@pytest.mark.parametrize("name", list_pose_spaces())
def test_a_layer_takes_a_space_by_name_or_as_an_object(name: str) -> None:
    torch.manual_seed(0)
    named = DenseCaps(3, 16, 2, 16, pose=name)
    torch.manual_seed(0)
    given = DenseCaps(3, 16, 2, 16, pose=create_pose_space(name, 16, 16))
    children = torch.randn(2, 3, 16)
    assert torch.equal(named(children).pose, given(children).pose)
    assert named.weight.shape == (3, 2, *named.space.weight_shape)


def test_a_matrix_vote_is_the_product_of_pose_and_weight() -> None:
    space = MatrixPose(9, 9)
    pose, weight = torch.randn(5, 9), torch.randn(5, 2, 3, 3)
    votes = space.compose(pose, weight)
    for child in range(5):
        for parent in range(2):
            expected = pose[child].view(3, 3) @ weight[child, parent]
            torch.testing.assert_close(votes[child, parent].view(3, 3), expected)


def test_a_vector_vote_is_a_linear_map() -> None:
    space = VectorPose(3, 5)
    pose, weight = torch.randn(4, 3), torch.randn(4, 2, 3, 5)
    torch.testing.assert_close(space.compose(pose, weight)[1, 0], pose[1] @ weight[1, 0])


@pytest.mark.parametrize("name", list_pose_spaces())
def test_distance_is_zero_from_a_pose_to_itself_and_symmetric(name: str) -> None:
    space = create_pose_space(name, 16, 16)
    first, second = torch.randn(2, 7, 16)
    assert torch.equal(space.distance(first, first), torch.zeros(7))
    torch.testing.assert_close(space.distance(first, second), space.distance(second, first))


@pytest.mark.parametrize(
    ("pose", "in_dim", "out_dim", "message"),
    [
        ("matrx", 16, 16, "unknown pose space 'matrx': did you mean 'matrix'"),
        ("matrix", 15, 15, "matrix poses need in_dim = out_dim = P·P"),
        ("vector", 0, 3, "in_dim must be a whole number of at least 1"),
        (OWN, 5, 4, "in_dim=5, but the pose space given as `pose` has in_dim=4"),
        (3, 4, 4, "pose must be a name or a PoseSpace"),
    ],
)
def test_wrong_spaces_are_explained(pose: object, in_dim: int, out_dim: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_pose_space(pose, in_dim, out_dim)  # type: ignore[arg-type]


def test_a_weight_of_another_space_is_named() -> None:
    with pytest.raises(ValueError, match=r"weight must be \[rows, J, 4\] for ShiftPose\(4, 4\)"):
        DenseVotes(torch.ones(2, 3, 4), torch.ones(3, 5, 6), OWN)

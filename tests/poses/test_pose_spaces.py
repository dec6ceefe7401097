from __future__ import annotations

import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps, list_pose_spaces
from torchcaps.poses import POSE_SPACES, MatrixPose, PoseSpace, VectorPose, create_pose_space
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
    space = create_pose_space(name, None, None)
    size, options = space.in_dim, {"routing": "kmeans", "metric": "euclidean"}
    torch.manual_seed(0)
    named = DenseCaps(3, size, 2, size, pose=name, **options)
    torch.manual_seed(0)
    given = DenseCaps(3, size, 2, size, pose=space, **options)
    children = torch.randn(2, 3, size)
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
    space = create_pose_space(name, None, None)
    first, second = torch.randn(2, 7, space.out_dim)
    assert torch.equal(space.distance(first, first), torch.zeros(7))
    torch.testing.assert_close(space.distance(first, second), space.distance(second, first))


@pytest.mark.parametrize("name", list_pose_spaces())
def test_the_space_of_a_weight_is_the_space_it_was_made_for(name: str) -> None:
    sizes = {"vector": (5, 3), "quaternion": (4 + 5, 4 + 3)}.get(name, (None, None))
    space = create_pose_space(name, *sizes)
    votes = DenseVotes(torch.randn(2, 6, space.in_dim), space.initial_weight(6, 3), name)
    assert (votes.space.in_dim, votes.pose_dim) == (space.in_dim, space.out_dim)
    assert votes.tensor().shape == (2, 1, 6, 3, space.out_dim)


MOVING = [(name, kind) for name in list_pose_spaces() for kind in POSE_SPACES[name].viewpoints]


@pytest.mark.parametrize(("name", "kind"), MOVING)
def test_a_change_of_viewpoint_moves_votes_as_it_moves_poses(name: str, kind: str) -> None:
    space = create_pose_space(name, *((4 + 2, 4 + 3) if name == "quaternion" else (None, None)))
    transform = space.random_transform(kind)
    pose = torch.randn(5, space.in_dim, dtype=torch.float64)
    if name == "quaternion":
        pose[:, :4] /= pose[:, :4].norm(dim=-1, keepdim=True)
    weight = space.initial_weight(5, 4).double()
    moved = space.compose(space.move(pose, transform), weight)
    torch.testing.assert_close(moved, space.move(space.compose(pose, weight), transform))


@pytest.mark.parametrize(("name", "kind"), [case for case in MOVING if case[0] != "quaternion"])
def test_a_change_of_viewpoint_mixes_the_rows_of_differences(name: str, kind: str) -> None:
    space = create_pose_space(name, None, None)
    transform = space.random_transform(kind)
    first, second = torch.randn(2, 3, space.in_dim, dtype=torch.float64)
    before = space.matrix(first - second)
    after = space.matrix(space.move(first, transform) - space.move(second, transform))
    mixing = after[0] @ torch.linalg.pinv(before[0])
    torch.testing.assert_close(mixing @ before, after)
    assert before.shape[-2:] == space.matrix_shape


def test_only_the_kinds_of_viewpoint_of_a_space_are_known() -> None:
    with pytest.raises(ValueError, match="unknown kind 'shear'"):
        MatrixPose().random_transform("shear")
    for wrong in (
        lambda: VectorPose(4, 4).random_transform(),
        lambda: VectorPose(4, 4).move(torch.ones(4), torch.eye(4)),
        lambda: VectorPose(4, 4).matrix(torch.ones(4)),
    ):
        with pytest.raises(ValueError, match=r"VectorPose\(4, 4\)"):
            wrong()


@pytest.mark.parametrize(
    ("pose", "in_dim", "out_dim", "message"),
    [
        ("matrx", 16, 16, "unknown pose space 'matrx': did you mean 'matrix'. If it is your own, import "),
        ("matrix", 15, 15, "matrix poses need in_dim = out_dim = P·P"),
        ("similarity", 16, 16, "similarity poses need in_dim = out_dim = 4"),
        ("quaternion", 4, 3, "in_dim and out_dim must be at least 4, got in_dim=4, out_dim=3"),
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

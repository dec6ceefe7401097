from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps
from torchcaps.poses import QuaternionPose
from torchcaps.poses.quaternion import first_eigenvector
from torchcaps.routing import create_routing
from torchcaps.testing import (
    assert_batch_independent,
    assert_child_permutation,
    assert_couplings_normalized,
    assert_finite_everywhere,
    assert_gradcheck,
    assert_gradient_accurate,
)
from torchcaps.votes import DenseVotes

double = torch.float64
SPACE = QuaternionPose()


def unit(values: Tensor) -> Tensor:
    return values / values.norm(dim=-1, keepdim=True)


def rotation(quaternion: Tensor) -> Tensor:
    """The 3×3 rotation matrix of a unit quaternion."""
    w, x, y, z = quaternion.tolist()
    return torch.tensor(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ],
        dtype=double,
    )


def about_z(angle: Tensor) -> Tensor:
    half, zero = angle / 2, torch.zeros_like(angle)
    return torch.stack([half.cos(), zero, zero, half.sin()], -1)


def test_a_vote_is_the_product_of_rotation_matrices_and_a_map_of_features() -> None:
    space = QuaternionPose(4 + 3, 4 + 2)
    pose, weight = torch.randn(5, 7, dtype=double), torch.randn(5, 3, 10, dtype=double)
    votes = space.compose(pose, weight)
    for child in range(5):
        for parent in range(3):
            product = rotation(unit(pose[child, :4])) @ rotation(unit(weight[child, parent, :4]))
            torch.testing.assert_close(rotation(votes[child, parent, :4]), product)
            features = pose[child, 4:] @ weight[child, parent, 4:].view(3, 2)
            torch.testing.assert_close(votes[child, parent, 4:], features)


def test_first_weights_are_rotations_and_keep_the_size_of_features() -> None:
    weight = QuaternionPose(4 + 100, 4 + 50).initial_weight(7, 3)
    torch.testing.assert_close(weight[..., :4].norm(dim=-1), torch.ones(7, 3))
    assert weight[..., 4:].std().item() == pytest.approx(0.1, rel=0.05)


def test_the_mean_is_the_eigenvector_of_the_largest_eigenvalue() -> None:
    space = QuaternionPose(6, 6)
    votes = torch.randn(2, 3, 7, 2, 6, dtype=double)
    votes[..., :4] = unit(votes[..., :4] + torch.tensor([1.0, 0.5, 0.0, 0.0]))
    share = torch.rand(2, 3, 7, 2, dtype=double)
    share = share / share.sum(2, keepdim=True)
    mean = space.mean(votes, share)
    for b, p, j in np.ndindex(2, 3, 2):
        q, s = votes[b, p, :, j, :4].numpy(), share[b, p, :, j].numpy()
        values, vectors = np.linalg.eigh(sum(s[i] * np.outer(q[i], q[i]) for i in range(7)))
        assert abs(vectors[:, -1] @ mean[b, p, j, :4].numpy()) == pytest.approx(1, abs=1e-12), values
        np.testing.assert_allclose(mean[b, p, j, 4:].numpy(), s @ votes[b, p, :, j, 4:].numpy())


def test_the_mean_of_rotations_about_one_axis_is_that_of_their_angles() -> None:
    """Whatever the sign of each quaternion."""
    angle = torch.tensor([0.1, 0.3, 0.8, 1.2], dtype=double)
    votes = about_z(angle) * torch.tensor([1.0, -1.0, 1.0, -1.0])[:, None]
    votes, share = votes[None, None, :, None], torch.full((1, 1, 4, 1), 0.25, dtype=double)
    mean = SPACE.mean(votes, share)[0, 0, 0]
    # The double angle of a quaternion is the angle itself: its mean direction.
    direction = math.atan2(angle.sin().sum(), angle.cos().sum())
    torch.testing.assert_close(mean, about_z(torch.tensor(direction, dtype=double)))


def test_the_distance_is_the_squared_angle_of_the_rotation_between() -> None:
    first, second = unit(torch.randn(2, 20, 4, dtype=double))
    for one, other, distance in zip(first, second, SPACE.distance(first, second)):
        between = rotation(one).T @ rotation(other)
        angle = math.acos(max(-1.0, min(1.0, (between.trace().item() - 1) / 2)))
        assert distance.item() == pytest.approx(angle**2)
    torch.testing.assert_close(SPACE.distance(first, -second), SPACE.distance(first, second))
    space = QuaternionPose(4 + 2, 4 + 2)
    features = torch.tensor([[3.0, 4.0]], dtype=double).expand(20, 2)
    pose = torch.cat([first, features], -1)
    torch.testing.assert_close(
        space.distance(pose, torch.cat([first, 0 * features], -1)), 25 * torch.ones(20).double()
    )


@pytest.mark.parametrize("angle", [0.0, 1e-3, 1.0, 3.0, math.pi])
def test_distances_keep_their_digits_and_slopes_in_float32(angle: float) -> None:
    turned = torch.tensor(angle, requires_grad=True)
    distance = SPACE.distance(about_z(torch.tensor(0.0)), about_z(turned))
    distance.backward()
    assert distance.item() == pytest.approx(angle**2, rel=1e-4, abs=1e-12)
    assert turned.grad is not None
    assert abs(turned.grad.item()) == pytest.approx(2 * angle, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("values", [(1, 1, 1, 1), (1, 1, 0, 0), (0, 0, 0, 0), (1, 0, 0, 0), (4, 3, 2, 1)])
def test_the_first_eigenvector_has_finite_gradients_for_any_spectrum(values: tuple[int, ...]) -> None:
    basis = torch.linalg.qr(torch.randn(4, 4))[0]
    matrix = (basis @ torch.tensor(values).float().diag() @ basis.T).requires_grad_()
    vector = first_eigenvector(matrix)
    vector.sum().backward()
    assert vector.isfinite().all()
    assert matrix.grad is not None
    assert matrix.grad.isfinite().all()
    if values == (4, 3, 2, 1):
        torch.testing.assert_close(vector.detach().abs(), basis[:, 0].abs())


def test_gradients_of_mean_and_distance() -> None:
    space = QuaternionPose(4 + 2, 4 + 1)
    pose, weight = torch.randn(1, 5, 6, dtype=double), space.initial_weight(5, 2).double()
    share = torch.rand(1, 1, 5, 2, dtype=double)

    def run(pose: Tensor, weight: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        votes = DenseVotes(pose, weight, space).tensor()
        mean = space.mean(votes, share)
        return mean, space.distance(votes, mean.unsqueeze(2))

    assert torch.autograd.gradcheck(run, [values.requires_grad_() for values in (pose, weight, share)])


ROUTINGS: dict[str, dict[str, Any]] = {
    "kmeans": {"routing": "kmeans", "metric": "euclidean", "temperature": 0.5},
    "em-spherical": {"routing": "em", "covariance": "spherical"},
    "em-spherical-mixing": {"routing": "em", "covariance": "spherical", "activation": "mixing"},
    "em-fixed": {"routing": "em", "covariance": "fixed", "sigma": 0.7},
}
LAYERS = {
    "dense": (lambda **o: DenseCaps(4, 6, 3, 5, pose="quaternion", **o), (4, 6)),
    "shared": (lambda **o: SharedCaps(4, 3, 4, pose="quaternion", **o), (4, 4)),
    "conv": (lambda **o: ConvCaps(2, 2, kernel_size=2, padding=1, pose="quaternion", **o), (3, 2, 2, 4)),
    "class": (lambda **o: ClassCaps(2, 3, in_dim=6, pose="quaternion", **o), (2, 2, 2, 6)),
}


@pytest.mark.parametrize(
    ("geometry", "routing"),
    [
        *(("dense", routing) for routing in ROUTINGS),
        *((geometry, "em-fixed") for geometry in ("shared", "conv", "class")),
    ],
)
def test_laws(geometry: str, routing: str) -> None:
    make, shape = LAYERS[geometry]
    layer = make(**ROUTINGS[routing])
    children = Capsules(torch.randn(2, *shape), 0.1 + 0.8 * torch.rand(2, *shape[:-1]))
    assert_couplings_normalized(layer, children)
    assert_batch_independent(layer, children, atol=1e-4)
    precise = Capsules(*(values.double() for values in children))
    assert_finite_everywhere(layer, children)
    assert_gradcheck(layer, children, fast_mode=True)
    assert_gradient_accurate(layer, children)
    assert_child_permutation(layer.double(), precise, atol=1e-6)


def clusters(*angles: float) -> tuple[DenseVotes, Tensor]:
    """Votes that are rotations about one axis, the same for two parents, and activations of 1."""
    pose = about_z(torch.tensor(angles, dtype=double))[None]
    weight = about_z(torch.zeros(len(angles), 2, dtype=double))
    return DenseVotes(pose, weight, "quaternion"), torch.ones(1, len(angles), dtype=double)


@pytest.mark.parametrize(
    "options", [{"sigma": 0.2, "covariance": "fixed"}, {"covariance": "spherical"}], ids=str
)
def test_em_is_a_mixture_by_squared_angles(options: dict[str, Any]) -> None:
    """Against loops over numbers; means of angles are exact for rotations about one axis."""
    angles = np.array([0.1, 0.25, 0.3, 1.5, 1.7])
    votes, activation = clusters(*angles)
    R = np.array([[0.9, 0.1]] * 3 + [[0.2, 0.8]] * 2)
    routing = create_routing("em", activation="mixing", epsilon=1e-9, iterations=4, **options)
    for routed in routing.history(votes, activation, torch.tensor(R)[None, None]):
        assert routed.coupling is not None
        np.testing.assert_allclose(routed.coupling[0, 0].numpy(), R, atol=1e-7)
        share = R / R.sum(0)
        mean = np.arctan2(share.T @ np.sin(angles), share.T @ np.cos(angles))
        np.testing.assert_allclose(routed.pose[0, 0].numpy(), about_z(torch.tensor(mean)).numpy(), atol=1e-9)
        np.testing.assert_allclose(routed.activation[0, 0].numpy(), R.sum(0) / 5)
        square = (angles[:, None] - mean) ** 2
        variance = (share * square).sum(0) / 3 + 1e-9
        if "sigma" in options:
            variance = np.full(2, options["sigma"] ** 2)
        density = R.sum(0) / 5 * np.exp(-square / variance / 2) / variance**1.5
        R = density / density.sum(1, keepdims=True)


def test_covariances_have_a_variance_per_direction_of_rotation() -> None:
    votes, _ = clusters(-0.3, 0.3)
    even = torch.full((1, 1, 2, 2), 0.5, dtype=double)
    spherical = create_routing("em", covariance="spherical").covariances(votes, even)
    torch.testing.assert_close(spherical[0, 0, 0], 0.03 * torch.eye(3).double(), atol=1e-5, rtol=0)
    fixed = create_routing("em", covariance="fixed", sigma=0.5).covariances(votes, even)
    torch.testing.assert_close(fixed[0, 0, 0], 0.25 * torch.eye(3).double())


def test_the_code_length_is_that_of_the_fitted_gaussian_where_sigma_is_right() -> None:
    votes, activation = clusters(-0.3, 0.3)
    options = {"iterations": 1, "epsilon": 1e-12, "inverse_temperature": 1.0}
    spherical = create_routing("em", covariance="spherical", **options).double()(votes, activation)
    fixed = create_routing("em", covariance="fixed", sigma=0.03**0.5, **options).double()(votes, activation)
    expected = -0.05 * 3 * math.log(0.03**0.5)
    torch.testing.assert_close(spherical.logits, torch.full_like(spherical.logits, expected))
    torch.testing.assert_close(fixed.logits, torch.full_like(fixed.logits, expected))


def test_kmeans_activation_is_high_where_votes_agree() -> None:
    routing = create_routing("kmeans", metric="euclidean", iterations=1)
    agreeing, scattered = (routing(*clusters(*angles)) for angles in [(0.5, 0.5), (-0.8, 0.8)])
    torch.testing.assert_close(agreeing.activation, torch.full((1, 1, 2), 0.5, dtype=double))  # mass 1
    length = math.exp(-0.64 / 2)
    torch.testing.assert_close(
        scattered.activation, torch.full((1, 1, 2), length**2 / (1 + length**2), dtype=double)
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("uniform", {}),
        ("dynamic", {}),
        ("kmeans", {"metric": "cosine"}),
        ("em", {"covariance": "diagonal"}),
        ("em", {"covariance": "full"}),
    ],
)
def test_routings_that_add_poses_refuse(name: str, options: dict[str, str]) -> None:
    votes, activation = clusters(0.0, 1.0)
    with pytest.raises(ValueError, match="has poses that cannot be added; use another routing"):
        create_routing(name, **options)(votes, activation)


def test_no_kernel_takes_these_poses() -> None:
    votes = DenseVotes(torch.randn(2, 3, 16), torch.randn(3, 2, 4 + 12 * 12), "quaternion")
    assert create_routing("em").fused(votes, torch.ones(2, 3)) is None
    assert create_routing("dynamic").fused(votes, torch.ones(2, 3)) is None


def test_layers_can_be_stacked() -> None:
    first = ConvCaps(2, 3, kernel_size=2, pose="quaternion", in_dim=8, covariance="spherical")
    second = ClassCaps(3, 4, pose="quaternion", in_dim=8, out_dim=6, routing="kmeans", metric="euclidean")
    children = Capsules(torch.randn(2, 3, 3, 2, 8), torch.rand(2, 3, 3, 2))
    output = second(first(children))
    assert output.pose.shape == (2, 4, 6)
    torch.testing.assert_close(output.pose[..., :4].norm(dim=-1), torch.ones(2, 4))


def test_long_quaternions_of_half_precision_keep_their_direction() -> None:
    pose, weight = torch.tensor([[300.0, 200.0, 0, 0]]), torch.tensor([1.0, 0, 0, 0]).expand(1, 1, 4)
    wanted = QuaternionPose(4, 4).compose(pose, weight)
    half = QuaternionPose(4, 4).compose(pose.half(), weight.half())
    assert half.dtype == torch.float16
    torch.testing.assert_close(half.float(), wanted, rtol=1e-3, atol=1e-3)

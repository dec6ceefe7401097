"""EM with one covariance of the rows of a matrix pose."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from support.layers import children
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps
from torchcaps.poses import MatrixPose, SimilarityPose
from torchcaps.routing import create_routing
from torchcaps.routing.covariance import Rows
from torchcaps.testing import (
    assert_batch_independent,
    assert_child_permutation,
    assert_couplings_normalized,
    assert_finite_everywhere,
    assert_gradcheck,
    assert_gradient_accurate,
)
from torchcaps.votes import DenseVotes, SharedVotes

double = torch.float64
ROWS = {"routing": "em", "covariance": "rows"}
LAYERS = {
    "dense": (lambda **o: DenseCaps(4, 9, 3, 9, pose="matrix", **o), (4, 9)),
    "dense-one": (lambda **o: DenseCaps(3, 1, 2, 1, pose="matrix", **o), (3, 1)),
    "shared": (lambda **o: SharedCaps(16, 3, 16, pose="matrix", **o), (5, 16)),
    "conv": (lambda **o: ConvCaps(1, 2, kernel_size=3, stride=2, padding=1, in_dim=4, **o), (4, 3, 1, 4)),
    "class": (lambda **o: ClassCaps(2, 2, in_dim=4, **o), (2, 2, 2, 4)),
}


@pytest.mark.parametrize("activation", ["mdl", "mixing"])
@pytest.mark.parametrize("geometry", LAYERS)
def test_laws(geometry: str, activation: str) -> None:
    make, shape = LAYERS[geometry]
    layer, capsules = make(activation=activation, **ROWS), children(shape)
    assert_couplings_normalized(layer, capsules)
    assert_batch_independent(layer, capsules, atol=1e-4)
    assert_finite_everywhere(layer, capsules)
    assert_gradcheck(layer, capsules, fast_mode=True)
    assert_child_permutation(layer.double(), Capsules(*(v.double() for v in capsules)), atol=1e-6)


@pytest.mark.parametrize("live", [1, 2, 3, 6])
@pytest.mark.parametrize("activation", ["mdl", "mixing"])
def test_float32_gradients_are_accurate(activation: str, live: int) -> None:
    for seed in range(4):
        torch.manual_seed(seed)
        layer = DenseCaps(6, 16, 10, 16, pose="matrix", activation=activation, **ROWS)
        alive = torch.zeros(2, 6)
        alive[:, :live] = 1
        assert_gradient_accurate(layer, Capsules(torch.randn(2, 6, 16), alive))


@pytest.mark.parametrize("space", [MatrixPose(9, 9), SimilarityPose()], ids=repr)
def test_log_density_and_code_length_equal_the_formulas(space: MatrixPose | SimilarityPose) -> None:
    votes = torch.randn(1, 1, 6, 2, space.out_dim, dtype=double)
    share = torch.rand(1, 1, 6, 2, dtype=double)
    share = share / share.sum(2, keepdim=True)
    mean = torch.randn(1, 1, 2, space.out_dim, dtype=double)
    gaussian = Rows(1e-3).bind(space)
    spread = gaussian.fit(votes, share, mean)
    log_density = gaussian.log_density(votes, mean, spread)
    for j in range(2):
        X = space.matrix(votes[0, 0, :, j] - mean[0, 0, j]).numpy()
        R, C = X.shape[1:]
        sigma = sum(share[0, 0, i, j].item() * X[i] @ X[i].T for i in range(6)) / C + 1e-3 * np.eye(R)
        whole = np.kron(sigma, np.eye(C))  # all entries of a matrix, row by row
        np.testing.assert_allclose(gaussian.covariance(spread, 0)[0, 0, j].numpy(), whole, atol=1e-8)
        volume = np.linalg.slogdet(2 * np.pi * whole)[1]
        for i in range(6):
            distance = X[i].ravel() @ np.linalg.inv(whole) @ X[i].ravel()
            np.testing.assert_allclose(log_density[0, 0, i, j].item(), -(distance + volume) / 2, rtol=1e-7)
        code = gaussian.code_length(spread, space.out_dim)[0, 0, j].item()
        np.testing.assert_allclose(code, C / 2 * np.linalg.slogdet(sigma)[1], atol=1e-7)


def test_em_equals_a_mixture_in_loops() -> None:
    random = np.random.default_rng(0)
    M, W = random.normal(size=(8, 2, 2)), random.normal(size=(8, 3, 2, 2))
    votes = DenseVotes(torch.tensor(M).flatten(1)[None], torch.tensor(W), "matrix")
    routing = create_routing("em", covariance="rows", activation="mixing", iterations=4)
    routed = routing.history(votes, torch.ones(1, 8, dtype=double))
    V, R = np.einsum("ipq,ijqr->ijpr", M, W), np.full((8, 3), 1 / 3)
    for step in routed:
        share = R / R.sum(0)
        mu = np.einsum("ij,ijpr->jpr", share, V)
        X = V - mu
        sigma = np.einsum("ij,ijpc,ijqc->jpq", share, X, X) / 2 + 1e-6 * np.eye(2)
        np.testing.assert_allclose(step.pose[0, 0].numpy(), mu.reshape(3, 4), atol=1e-6)
        np.testing.assert_allclose(step.coupling[0, 0].numpy(), R, atol=1e-6)
        log_density = -0.5 * np.einsum("ijpc,jpq,ijqc->ij", X, np.linalg.inv(sigma), X) - np.log(
            np.linalg.det(sigma)
        )
        R = R.mean(0) * np.exp(log_density - log_density.max(1, keepdims=True))
        R /= R.sum(1, keepdims=True)


def test_matrices_of_one_number_have_a_spherical_covariance() -> None:
    votes = SharedVotes(torch.randn(1, 9, 1, dtype=double), torch.randn(3, 1, 1, dtype=double), "matrix")
    rows, spherical = (
        create_routing("em", covariance=kind).double()(votes, torch.ones(1, 9, dtype=double), coupling=True)
        for kind in ("rows", "spherical")
    )
    torch.testing.assert_close(rows.coupling, spherical.coupling)
    torch.testing.assert_close(rows.activation, spherical.activation)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("dtype", [torch.float32, double], ids=str)
def test_log_densities_fall_by_the_log_determinant(dtype: torch.dtype, scale: float) -> None:
    space = MatrixPose()
    votes = scale * torch.randn(1, 1, 20, 3, 16, dtype=dtype)
    share = torch.full((1, 1, 20, 3), 0.05, dtype=dtype)
    transform = space.random_transform("invertible")
    gaussian = Rows(1e-12 * scale**2).bind(space)
    both = []
    for moved in (votes, space.move(votes, transform)):
        mean = moved.mean(2)
        both.append(gaussian.log_density(moved, mean, gaussian.fit(moved, share, mean)))
    fall = 4 * torch.linalg.slogdet(transform)[1].to(dtype)
    torch.testing.assert_close(both[1], both[0] - fall, atol=1e-3 if dtype == torch.float32 else 1e-7, rtol=0)


def test_poses_without_rows_are_refused() -> None:
    layer = DenseCaps(4, 3, 2, 5, pose="vector", **ROWS)
    for call in (layer, layer.history):
        with pytest.raises(ValueError, match=r"'rows' needs poses that are matrices.*got VectorPose\(3, 5\)"):
            call(torch.randn(2, 4, 3))
    with pytest.raises(ValueError, match="votes must be an instance of Votes"):
        layer.routing(torch.ones(2), torch.ones(2))


@pytest.mark.slow
def test_compiles_whole() -> None:
    layer, capsules = ConvCaps(2, 3, kernel_size=3, **ROWS), children((5, 5, 2, 16))
    torch._dynamo.reset()
    whole = torch.compile(layer, backend="eager", fullgraph=True)(capsules)
    torch.testing.assert_close(whole.pose, layer(capsules).pose)

import numpy as np
import pytest
import torch
from scipy.special import digamma

from support.layers import children
from support.references import VotesOf, class_votes, conv_votes
from torchcaps import Capsules, ClassCaps, ConvCaps, SharedCaps, create_routing
from torchcaps.layers import CapsuleLayer
from torchcaps.routing import EMRouting, VariationalRouting
from torchcaps.routing.variational import _digamma
from torchcaps.testing import assert_gradient_accurate
from torchcaps.votes import SharedVotes

double = torch.float64


def reference(
    votes: VotesOf, a: np.ndarray, beta: np.ndarray, iterations: int, full: bool
) -> tuple[dict, dict, dict]:
    """Posterior means, logits and assignments, by the paper's formulas in loops."""
    parents_of: dict = {}
    for parent, field in votes.items():
        for child in field:
            parents_of.setdefault(child, []).append(parent)
    D, types = next(iter(next(iter(votes.values())).values())).size, len(beta)
    R = {(i, j): 1 / len(parents) for i, parents in parents_of.items() for j in parents}
    m, logit = {}, {}
    for iteration in range(iterations):
        N = {j: sum(R[i, j] * a[i] for i in field) for j, field in votes.items()}
        log_rho = {}
        for j, field in votes.items():
            kappa, nu = 1 + N[j], D + 1 + N[j]
            mu = sum(R[i, j] * a[i] * V for i, V in field.items()) / N[j]
            m[j] = N[j] * mu / kappa
            inverse = np.eye(D) + N[j] / kappa * np.outer(mu, mu)
            for i, V in field.items():
                inverse += R[i, j] * a[i] * np.outer(V - mu, V - mu)
            if not full:
                inverse = np.diag(np.diag(inverse))
            same_place = sum(1 + N[(*j[:-1], k)] for k in range(types))
            log_pi = digamma(1 + N[j]) - digamma(same_place)
            log_lambda = sum(digamma((nu - d) / 2) for d in range(D))
            log_lambda += D * np.log(2) - np.linalg.slogdet(inverse)[1]
            H = D / 2 * np.log(2 * np.pi * np.e) - log_lambda / 2
            logit[j] = beta[j[-1]] - np.exp(log_pi) * H
            for i, V in field.items():
                quadratic = D / kappa + nu * (V - m[j]) @ np.linalg.solve(inverse, V - m[j])
                log_rho[i, j] = log_pi + log_lambda / 2 - D / 2 * np.log(2 * np.pi) - quadratic / 2
        if iteration < iterations - 1:
            for i, parents in parents_of.items():
                rho = np.exp([log_rho[i, j] - max(log_rho[i, k] for k in parents) for j in parents])
                R.update({(i, j): share for j, share in zip(parents, rho / rho.sum())})
    return m, logit, R


def layer_and_votes(kind: str, capsules: Capsules, **options) -> tuple[CapsuleLayer, VotesOf]:
    pose = capsules.pose[0].numpy()
    if kind == "class":
        layer = ClassCaps(2, 3, in_dim=4, routing="variational", **options).double()
        return layer, class_votes(pose, layer.weight.detach().numpy())
    layer = ConvCaps(
        2, 3, kernel_size=3, stride=2, padding=1, in_dim=4, routing="variational", **options
    ).double()
    return layer, conv_votes(pose, layer.weight.detach().numpy(), 3, 2, 1)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("kind", ["conv", "class"])
def test_equals_the_formulas(kind: str, covariance: str) -> None:
    torch.manual_seed(0)
    capsules = children((3, 4, 2, 4), batch=1, dtype=double)
    for iterations in (1, 3):
        layer, votes = layer_and_votes(kind, capsules, covariance=covariance, iterations=iterations)
        with torch.no_grad():
            layer.routing.beta_a.normal_()
            layer.routing.beta_u.normal_()
            beta = (layer.routing.beta_a - layer.routing.beta_u).numpy()
            routed = layer(capsules, coupling=True)
        m, logit, R = reference(votes, capsules.activation[0].numpy(), beta, iterations, covariance == "full")
        for j in votes:
            np.testing.assert_allclose(routed.pose[0][j].numpy(), m[j], atol=1e-7)
            assert float(routed.logits[0][j]) == pytest.approx(logit[j], abs=1e-7)
        torch.testing.assert_close(routed.activation, torch.sigmoid(routed.logits))
        if kind == "class":  # children in order of row, column, type
            wanted = [[R[tuple(i), (j,)] for j in range(3)] for i in np.ndindex(3, 4, 2)]
            np.testing.assert_allclose(routed.coupling[0].numpy(), wanted, atol=1e-7)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_with_much_evidence_it_becomes_the_ordinary_mixture(covariance: str) -> None:
    """The priors count as one vote: among thousands of copies of each child they do not matter."""
    torch.manual_seed(0)
    pose, activation = torch.randn(1, 8, 3, dtype=double), 0.2 + 0.8 * torch.rand(1, 8, dtype=double)
    weight = torch.randn(2, 3, 2, dtype=double)
    mixture = EMRouting(activation="mixing", covariance=covariance, epsilon=1e-12)
    wanted = mixture(SharedVotes(pose, weight), activation, coupling=True)
    errors = []
    for copies in (1, 100, 4000):
        votes = SharedVotes(pose.repeat(1, copies, 1), weight)
        routed = VariationalRouting(covariance=covariance)(votes, activation.repeat(1, copies), coupling=True)
        errors.append(float((routed.pose - wanted.pose).abs().max().detach()))
    assert errors[0] > 20 * errors[1] > 400 * errors[2]
    assert errors[2] < 1e-2


def test_without_votes_the_posterior_is_the_prior() -> None:
    routing = VariationalRouting()
    votes = SharedVotes(torch.randn(2, 5, 4), torch.randn(3, 4, 4))
    routed = routing(votes, torch.zeros(2, 5))
    assert torch.equal(routed.pose, torch.zeros(2, 1, 3, 4))
    log_lambda = sum(digamma((5 - d) / 2) for d in range(4)) + 4 * np.log(2)
    entropy = 2 * np.log(2 * np.pi * np.e) - log_lambda / 2
    wanted = -np.exp(digamma(1) - digamma(3)) * entropy
    torch.testing.assert_close(routed.logits, torch.full((2, 1, 3), float(wanted)))


def test_votes_that_agree_make_a_parent_more_active() -> None:
    votes = torch.randn(1, 20, 4)
    weight = torch.eye(4).repeat(2, 1, 1)
    close, far = (
        VariationalRouting()(SharedVotes(spread * votes, weight), torch.ones(1, 20)) for spread in (0.1, 10.0)
    )
    assert (close.logits > far.logits).all()


def test_no_density_underflows() -> None:
    """Densities of 1e-400 and less have no logarithm in any type; the assignment must not see them."""
    pose = torch.cat([torch.zeros(1, 10, 4), torch.full((1, 10, 4), 1e4)], 1).requires_grad_()
    votes = SharedVotes(pose, torch.stack([torch.eye(4), 0.5 * torch.eye(4)]))
    routed = VariationalRouting(iterations=5)(votes, torch.ones(1, 20), coupling=True)
    torch.testing.assert_close(routed.coupling.sum(-1), torch.ones(1, 1, 20))
    routed.logits.sum().backward()
    assert pose.grad is not None
    assert pose.grad.isfinite().all()


def test_gradients_keep_their_digits_with_thousands_of_children() -> None:
    layer = SharedCaps(4, 3, 4, routing="variational")
    assert_gradient_accurate(layer, Capsules(torch.randn(1, 3000, 4), torch.rand(1, 3000)))


def test_a_bad_covariance_is_named() -> None:
    with pytest.raises(ValueError, match="unknown covariance 'spherical'"):
        create_routing("variational", covariance="spherical")


def test_the_digamma_of_an_export_is_the_true_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.logspace(-3, 4, 501)
    expected = torch.digamma(values.double()).float()
    monkeypatch.setattr("torchcaps.routing.variational.exporting", lambda: True)
    torch.testing.assert_close(_digamma(values), expected, atol=1e-6, rtol=1e-6)

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from support import references
from support.layers import FEW, children
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps
from torchcaps.layers import CapsuleLayer
from torchcaps.routing import EMRouting, RoutingOutput
from torchcaps.votes import SharedVotes

pytestmark = pytest.mark.usefixtures("plain")
double = torch.float64
CLUSTERS = 4


def random_betas(layer: CapsuleLayer) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        for beta in (layer.routing.beta_u, layer.routing.beta_a):
            beta.copy_(torch.randn_like(beta))
    return layer.routing.beta_u.detach().numpy(), layer.routing.beta_a.detach().numpy()


@st.composite
def conv_cases(draw: st.DrawFn) -> tuple[int, int, int, tuple[int, int], int]:
    kernel = draw(st.integers(2, 3))
    return (
        kernel,
        draw(st.integers(1, 3)),
        draw(st.integers(0, 1)),
        (5, draw(st.integers(5, 7))),
        draw(st.integers(1, 3)),
    )


@pytest.mark.parametrize("stride", [1, 2, 3])
@given(conv_cases())
@FEW
def test_conv_em_equals_the_papers_procedure(stride: int, case) -> None:
    kernel, iterations, padding, grid, types = case
    layer = ConvCaps(
        2,
        types,
        kernel_size=kernel,
        stride=stride,
        padding=padding,
        in_dim=4,
        iterations=iterations,
        inverse_temperature=0.5,
    ).double()
    betas = random_betas(layer)
    capsules = children((*grid, 2, 4), dtype=double)
    with torch.no_grad():
        routed = layer(capsules, coupling=True)
    pose, activation = capsules.pose[1].numpy(), capsules.activation[1].numpy()
    votes = references.conv_votes(pose, layer.weight.detach().numpy(), kernel, stride, padding)
    mu, act, R = references.em_routing(
        votes, activation, iterations=iterations, beta_u=betas[0], beta_a=betas[1], final_lambda=0.5
    )
    assert len(mu) == routed.activation[1].numel()
    for parent in mu:
        np.testing.assert_allclose(routed.pose[(1, *parent)].numpy(), mu[parent], atol=1e-9)
        np.testing.assert_allclose(routed.activation[(1, *parent)].item(), act[parent], atol=1e-9)
    assert routed.coupling is not None
    for (child, (y, x, j)), share in R.items():
        row, column = child[0] - y * stride + padding, child[1] - x * stride + padding
        place = (row * kernel + column) * 2 + child[2]
        np.testing.assert_allclose(routed.coupling[1, y, x, place, j].item(), share, atol=1e-9)


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_class_em_equals_the_papers_procedure(iterations: int) -> None:
    layer = ClassCaps(2, 3, in_dim=4, iterations=iterations).double()
    betas = random_betas(layer)
    capsules = children((3, 5, 2, 4), dtype=double)
    with torch.no_grad():
        routed = layer(capsules, coupling=True)
    votes = references.class_votes(capsules.pose[0].numpy(), layer.weight.detach().numpy())
    mu, act, _ = references.em_routing(
        votes, capsules.activation[0].numpy(), iterations=iterations, beta_u=betas[0], beta_a=betas[1]
    )
    for j in range(3):
        np.testing.assert_allclose(routed.pose[0, j].numpy(), mu[j,], atol=1e-10)
        np.testing.assert_allclose(routed.activation[0, j].item(), act[j,], atol=1e-10)


def cluster(data: np.ndarray, start: np.ndarray, iterations: int, **options) -> list[RoutingOutput]:
    """Plain clustering as a routing: every point votes for itself, whichever the parent."""
    size = data.shape[1]
    votes = SharedVotes(torch.tensor(data)[None], torch.eye(size, dtype=double).repeat(CLUSTERS, 1, 1))
    routing = EMRouting(iterations=iterations, activation="mixing", **options).double()
    return routing.history(votes, torch.ones(1, len(data), dtype=double), torch.tensor(start)[None, None])


@pytest.fixture(params=range(2))
def plain_data(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    data, _ = make_blobs(80, 3, centers=CLUSTERS, cluster_std=2.5, random_state=request.param)
    return data, np.random.default_rng(request.param).dirichlet(np.ones(CLUSTERS), len(data))


@pytest.mark.parametrize("covariance", ["full", "diagonal", "spherical"])
def test_mixing_form_is_an_ordinary_gaussian_mixture(covariance: str, plain_data) -> None:
    """After the first M-step, scikit-learn goes on from our mixture; every later iteration must agree."""
    data, start = plain_data
    ours = cluster(data, start, 7, covariance=covariance, epsilon=1e-6)
    mean, weights = ours[0].pose[0, 0].numpy(), ours[0].activation[0, 0].numpy()
    share = start / start.sum(0)
    np.testing.assert_allclose(mean, share.T @ data)
    precisions = []
    for j in range(CLUSTERS):
        centered = data - mean[j]
        matrix = (share[:, j, None] * centered).T @ centered + 1e-6 * np.eye(3)
        variance = {"full": matrix, "diagonal": np.diag(matrix), "spherical": np.diag(matrix).mean()}[
            covariance
        ]
        precisions.append(np.linalg.inv(matrix) if covariance == "full" else 1 / variance)
    for iteration in range(1, 7):
        theirs = GaussianMixture(
            CLUSTERS,
            covariance_type={"diagonal": "diag"}.get(covariance, covariance),
            tol=0,
            reg_covar=1e-6,
            max_iter=iteration,
            weights_init=weights,
            means_init=mean,
            precisions_init=np.array(precisions),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(data)
        np.testing.assert_allclose(ours[iteration].pose[0, 0].numpy(), theirs.means_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours[iteration].activation[0, 0].numpy(), theirs.weights_, rtol=1e-6)


def test_no_iteration_lowers_the_likelihood(plain_data) -> None:
    """EM has an objective, unlike routing by agreement with a squash: the likelihood of the votes."""
    data, start = plain_data
    likelihoods = []
    for step in cluster(data, start, 10, covariance="full", epsilon=1e-9):
        assert step.coupling is not None
        assignment = step.coupling[0, 0].numpy()
        density = np.zeros(len(data))
        for weight in assignment.T:
            mean = weight @ data / weight.sum()
            covariance = (weight[:, None] * (data - mean)).T @ (data - mean) / weight.sum()
            density += weight.mean() * multivariate_normal.pdf(data, mean, covariance)
        likelihoods.append(np.log(density).sum())
    assert (np.diff(likelihoods) > -1e-6).all()
    assert likelihoods[-1] > likelihoods[0] + 1


@pytest.mark.parametrize(("spread", "tighter"), [(1e-1, 1e-2), (1e-2, 1e-3)])
def test_agreement_counts_however_good_it_is_already(spread: float, tighter: float) -> None:
    """A cosine saturates near 1, where the log variance does not: the paper's second reason for EM."""
    noise = torch.randn(50, 4, dtype=double, generator=torch.Generator().manual_seed(0))
    routing = EMRouting(iterations=1, epsilon=1e-12, normalize_mass=True, inverse_temperature=1, decay=0)
    logits, cosines = [], []
    for scale in (spread, tighter):
        votes = 1 + scale * noise
        shared = SharedVotes(votes[None], torch.eye(4, dtype=double)[None])
        logits.append(float(routing.double()(shared, torch.ones(1, 50, dtype=double)).logits.detach()))
        cosines.append(float(torch.cosine_similarity(votes, votes.mean(0, keepdim=True)).mean()))
    assert logits[1] - logits[0] > 1
    assert 0 < cosines[1] - cosines[0] < 0.01


def test_fixed_sigma_is_a_mixture_of_equal_spheres(plain_data) -> None:
    data, R = plain_data
    for routed in cluster(data, R, 6, covariance="fixed", sigma=1.5):
        weights = R.mean(0)
        mean = (R / R.sum(0)).T @ data
        np.testing.assert_allclose(routed.pose[0, 0].numpy(), mean)
        np.testing.assert_allclose(routed.activation[0, 0].numpy(), weights)
        distance = ((data[:, None] - mean) ** 2).sum(-1)
        p = weights * np.exp(-0.5 * distance / 1.5**2)
        R = p / p.sum(1, keepdims=True)


def test_vanishing_sigma_is_kmeans(plain_data) -> None:
    data, _ = plain_data
    centers = data[:CLUSTERS]
    labels = ((data[:, None] - centers) ** 2).sum(-1).argmin(1)
    ours = cluster(data, np.eye(CLUSTERS)[labels], 40, covariance="fixed", sigma=1e-3)
    theirs = KMeans(CLUSTERS, init=centers, n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(data)
    np.testing.assert_allclose(ours[-1].pose[0, 0].numpy(), theirs.cluster_centers_, atol=1e-9)
    assert ours[-1].coupling is not None
    np.testing.assert_array_equal(ours[-1].coupling[0, 0].argmax(-1).numpy(), theirs.labels_)


def test_temperature_rises_as_published() -> None:
    routing = EMRouting()
    assert [routing.inverse_temperature_at(t) for t in range(3)] == pytest.approx([5e-4, 9.75e-4, 1.42625e-3])
    assert EMRouting(decay=0).inverse_temperature_at(5) == 0.01


def test_logit_is_what_the_activation_was_pressed_from() -> None:
    layer = ConvCaps(2, 3, kernel_size=3, in_dim=4, inverse_temperature=1.0)
    routed = layer(children((4, 4, 2, 4)), coupling=True)
    torch.testing.assert_close(torch.sigmoid(routed.logits), routed.activation)


@pytest.mark.parametrize("covariance", ["full", "diagonal", "spherical", "fixed"])
def test_code_lengths_agree_where_all_covariances_are_the_same(covariance: str) -> None:
    """Votes of unit variance in every direction cost the same under every member of the family."""
    corners = torch.tensor([[x, y] for x in (-1.0, 1.0) for y in (-1.0, 1.0)], dtype=double)
    votes = SharedVotes(corners[None], torch.eye(2, dtype=double)[None])
    routing = EMRouting(covariance=covariance, beta_u=0.3, beta_a=1.0, inverse_temperature=1.0, iterations=1)
    logit = routing.double()(votes, torch.ones(1, 4, dtype=double)).logits
    torch.testing.assert_close(logit, torch.full_like(logit, 0.05 * (1.0 - 2 * 0.3 * 4)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("seed", range(4))
def test_children_out_of_reach_of_float32_are_still_shared_out(seed: int) -> None:
    """One child is alive, so variances are tiny, and the dead ones are 1e18 σ away from every parent."""
    torch.manual_seed(seed)
    layer = ConvCaps(4, 8, kernel_size=3, stride=2)
    activation = torch.zeros(2, 7, 7, 4)
    activation[:, 3, 3, 0] = 1
    for values in layer(Capsules(3e15 * torch.randn(2, 7, 7, 4, 16), activation), coupling=True):
        assert values.isfinite().all()


@pytest.mark.parametrize("seed", range(8))
def test_one_child_of_1e15_in_several_fields_has_finite_slopes(seed: int) -> None:
    torch.manual_seed(seed)
    layer = ConvCaps(1, 2, kernel_size=2, padding=1, in_dim=4, activation="mixing")
    pose = (1e15 * torch.randn(1, 1, 1, 1, 4)).requires_grad_()
    activation = torch.rand(1, 1, 1, 1, requires_grad=True)
    routed = layer(Capsules(pose, activation), coupling=True)
    (routed.pose.sum() + routed.activation.sum()).backward()
    for tensor in (pose, activation, layer.weight):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


def test_mixing_proportions_of_the_layer_add_up_to_one_over_all_parents() -> None:
    """In a convolutional layer the shares of each field add up to more: a child is in several fields."""
    children_below = children((5, 5, 2, 4))
    layer = ConvCaps(2, 3, kernel_size=3, in_dim=4, activation="mixing_layer")
    whole = layer(children_below).activation.flatten(1).sum(1)
    torch.testing.assert_close(whole, torch.ones(2))
    layer = ConvCaps(2, 3, kernel_size=3, in_dim=4, activation="mixing")
    assert layer(children_below).activation.flatten(1).sum(1).min() > 1.5


def test_beta_can_be_shared_by_all_types_of_a_layer() -> None:
    layer = DenseCaps(4, 16, 3, 16, pose="matrix", routing="em", share_beta=True)
    assert layer.routing.beta_u.shape == layer.routing.beta_a.shape == (1,)
    own = DenseCaps(4, 16, 3, 16, pose="matrix", routing="em")
    own.load_state_dict(
        {name: value.expand_as(own.state_dict()[name]) for name, value in layer.state_dict().items()}
    )
    below = children((4, 16))
    torch.testing.assert_close(layer(below).logits, own(below).logits)


def test_a_factor_on_the_inverse_temperature_acts_in_training_alone() -> None:
    routing = EMRouting(inverse_temperature=0.5, decay=0.0)
    routing.inverse_temperature_factor = 0.1
    assert routing.inverse_temperature_at(0) == pytest.approx(0.05)
    assert routing.eval().inverse_temperature_at(0) == 0.5


@pytest.mark.parametrize("seed", range(5))
def test_gradients_of_a_full_covariance_are_finite_among_votes_of_all_scales(seed: int) -> None:
    """The gradient of a share is a squared vote divided by a mass: beyond float32, if it is not cut."""
    torch.manual_seed(seed)
    layer = ConvCaps(2, 1, kernel_size=3, padding=1, in_dim=9, routing="em", covariance="full")
    scales = torch.tensor([1e-15, 1e15])[:, None]
    pose = (torch.randn(1, 3, 5, 2, 9) * scales).requires_grad_()
    layer(Capsules(pose, torch.rand(1, 3, 5, 2))).pose.sum().backward()
    assert pose.grad.isfinite().all()

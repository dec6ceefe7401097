from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from support.layers import children
from support.references import VotesOf, conv_votes
from torchcaps import Capsules, ConvCaps, DenseCaps, PoseSpace, create_routing
from torchcaps.routing import SinkhornRouting
from torchcaps.testing import assert_gradcheck
from torchcaps.votes import SharedVotes

double = torch.float64


def reference(
    votes: VotesOf, a: np.ndarray, *, beta: np.ndarray, log_share: np.ndarray, tau: float, **counts: int
) -> tuple[dict, dict, dict]:
    """Centers, logits and assignments, in loops: scaling of rows and columns by their sums."""
    parents_of: dict = {}
    for parent, field in votes.items():
        for child in field:
            parents_of.setdefault(child, []).append(parent)
    Q = {}
    for i, parents in parents_of.items():
        for j in parents:
            Q[i, j] = np.exp(log_share[j[-1]]) / sum(np.exp(log_share[k[-1]]) for k in parents)
    amount = {j: sum(a[i] * Q[i, j] for i in field) for j, field in votes.items()}
    R, column = dict(Q), dict.fromkeys(votes, 1.0)
    for iteration in range(counts["iterations"]):
        center, spread, d = {}, {}, {}
        for j, field in votes.items():
            mass = sum(a[i] * R[i, j] for i in field)
            center[j] = sum(a[i] * R[i, j] * V for i, V in field.items()) / mass
            d.update({(i, j): ((V - center[j]) ** 2).sum() for i, V in field.items()})
            spread[j] = sum(a[i] * R[i, j] * d[i, j] for i in field) / mass
        if iteration == counts["iterations"] - 1:
            break
        scale = sum(a[i] * R[i, j] * d[i, j] for i, j in R) / sum(a[i] * R[i, j] for i, j in R) + 0.01
        K = {pair: np.exp(-d[pair] / (tau * scale)) for pair in R}
        for _ in range(counts["steps"] + 1):
            row = {i: sum(K[i, j] * column[j] for j in parents) for i, parents in parents_of.items()}
            R = {(i, j): K[i, j] * column[j] / row[i] for i, j in K}
            before = dict(column)
            for j, field in votes.items():
                column[j] *= amount[j] / sum(a[i] * R[i, j] for i in field)
        column = before  # one normalization of rows more than of columns
    logits = {}
    for j, field in votes.items():
        mean_activation = amount[j] / sum(Q[i, j] for i in field)
        logits[j] = np.log(mean_activation) + beta[j[-1]] - np.log(spread[j] + 0.01)
    return center, logits, R


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("learn_shares", [False, True])
def test_equals_the_formulas_on_a_grid(learn_shares: bool, steps: int) -> None:
    torch.manual_seed(0)
    options: dict[str, Any] = {"learn_shares": learn_shares, "steps": steps, "temperature": 0.5}
    layer = ConvCaps(
        2, 3, kernel_size=3, stride=2, padding=1, in_dim=4, routing="sinkhorn", **options
    ).double()
    log_share = np.zeros(3)
    with torch.no_grad():
        beta = layer.routing.beta.normal_().numpy()
        if learn_shares:
            log_share = layer.routing.log_share.normal_().numpy()
        capsules = children((4, 5, 2, 4), batch=1, dtype=double)
        routed = layer(capsules, coupling=True)
    votes = conv_votes(capsules.pose[0].numpy(), layer.weight.detach().numpy(), 3, 2, 1)
    center, logits, R = reference(
        votes,
        capsules.activation[0].numpy(),
        beta=beta,
        log_share=log_share,
        tau=0.5,
        steps=steps,
        iterations=3,
    )
    for j in votes:
        np.testing.assert_allclose(routed.pose[0][j].numpy(), center[j], atol=1e-9)
        assert float(routed.logits[0][j]) == pytest.approx(logits[j], abs=1e-9)
    # Child (1, 1, 0) is in four fields; in that of parent (0, 0) it is at row 2, column 2.
    assert float(routed.coupling[0, 0, 0, 8 * 2, 1]) == pytest.approx(R[(1, 1, 0), (0, 0, 1)], abs=1e-9)


def amounts(layer: DenseCaps | ConvCaps, capsules: Capsules) -> tuple[Tensor, Tensor]:
    """What each parent gets, and what even shares would give it."""
    votes = layer.votes(capsules)
    child = votes.gather(capsules.activation.flatten(1)).unsqueeze(-1)
    with torch.no_grad():
        coupling = layer.routing.history(votes, capsules.activation.flatten(1))[-1].coupling
    assert coupling is not None
    return (coupling * child).sum(2), (votes.uniform() * child).sum(2)


def test_parents_get_equal_amounts() -> None:
    torch.manual_seed(0)
    capsules = children((30, 4), dtype=double)
    worst = []
    for steps in (1, 5, 25, 400):
        torch.manual_seed(0)
        layer = DenseCaps(30, 4, 5, 4, routing="sinkhorn", steps=steps).double()
        ours, _ = amounts(layer, capsules)
        equal = capsules.activation.sum(1)[:, None, None] / 5
        worst.append(float((ours / equal - 1).abs().max()))
    assert worst == sorted(worst, reverse=True)
    assert worst[1] < 0.2
    assert worst[-1] < 1e-6


def test_amounts_on_a_grid_can_be_reached() -> None:
    """A border child has fewer parents, so equal amounts for all would be impossible."""
    torch.manual_seed(0)
    layer = ConvCaps(2, 3, kernel_size=3, stride=2, padding=1, in_dim=4, routing="sinkhorn", steps=400)
    ours, wanted = amounts(layer.double(), children((5, 4, 2, 4), dtype=double))
    torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-6)


def test_learned_shares_are_the_amounts() -> None:
    torch.manual_seed(0)
    routing = SinkhornRouting(3, steps=400, learn_shares=True).double()
    with torch.no_grad():
        routing.log_share.copy_(torch.tensor([0.5, 0.3, 0.2]).log())
    votes = SharedVotes(torch.randn(1, 40, 4, dtype=double), torch.randn(3, 4, 4, dtype=double))
    activation = torch.rand(1, 40, dtype=double)
    coupling = routing(votes, activation, coupling=True).coupling
    amount = (coupling[0, 0] * activation[0, :, None]).sum(0) / activation.sum()
    torch.testing.assert_close(amount, torch.tensor([0.5, 0.3, 0.2], dtype=double), atol=1e-5, rtol=0)


def test_two_clusters_of_equal_size_are_found() -> None:
    """Both parents start almost in the middle."""
    torch.manual_seed(0)
    pose = torch.cat([torch.randn(1, 10, 2) - 5, torch.randn(1, 10, 2) + 5], 1).double()
    weight = torch.stack([torch.eye(2), torch.eye(2)]).double()
    start = torch.full((1, 1, 20, 2), 0.5, dtype=double)
    start[:, :, 0] = torch.tensor([0.6, 0.4])
    routing = SinkhornRouting(iterations=20, steps=50, temperature=0.1)
    routed = routing(SharedVotes(pose, weight), torch.ones(1, 20, dtype=double), start, coupling=True)
    first, second = routed.coupling[0, 0, :10, 0], routed.coupling[0, 0, 10:, 0]
    assert (first > 0.99).all()
    assert (second < 0.01).all()
    torch.testing.assert_close(routed.pose[0, 0, 0], pose[0, :10].mean(0), atol=1e-2, rtol=0)


def test_couplings_do_not_depend_on_the_scale_of_the_poses() -> None:
    pose, weight = torch.randn(2, 12, 4, dtype=double), torch.randn(3, 4, 4, dtype=double)
    routing, ones = SinkhornRouting(epsilon=1e-12), torch.ones(2, 12, dtype=double)
    small, large = (routing(SharedVotes(s * pose, weight), ones, coupling=True) for s in (1.0, 1e4))
    torch.testing.assert_close(small.coupling, large.coupling, atol=1e-9, rtol=0)
    assert (small.logits > large.logits).all()


def test_activation_tells_agreement_and_the_activation_of_children() -> None:
    pose, weight = torch.randn(1, 12, 4), torch.randn(3, 4, 4)
    routing = SinkhornRouting()
    agreed = routing(SharedVotes(pose[:, :1].expand(1, 12, 4), weight), torch.ones(1, 12))
    mixed, faint, dead = (routing(SharedVotes(pose, weight), torch.full((1, 12), a)) for a in (1.0, 0.5, 0.0))
    torch.testing.assert_close(agreed.logits, torch.full((1, 1, 3), -np.log(0.01)).float())
    assert (agreed.activation > mixed.activation).all()
    torch.testing.assert_close(faint.logits, mixed.logits - np.log(2))
    assert (dead.activation < 1e-15).all()


def test_without_children_parents_are_inactive() -> None:
    routed = SinkhornRouting()(SharedVotes(torch.ones(2, 0, 4), torch.ones(3, 4, 5)), torch.ones(2, 0))
    assert torch.equal(routed.pose, torch.zeros(2, 1, 3, 5))
    assert (routed.activation < 1e-15).all()


class Angles(PoseSpace):
    """Unit vectors of the plane: a vote is turned by a learned angle, and poses cannot be added."""

    linear = False
    weight_shape = (1,)

    def initial_weight(self, *pairs: int) -> Tensor:
        return torch.randn(*pairs, 1)

    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        x, y = pose.unsqueeze(-2).unbind(-1)
        cos, sin = weight.squeeze(-1).cos(), weight.squeeze(-1).sin()
        return torch.stack([x * cos - y * sin, x * sin + y * cos], -1)

    def mean(self, votes: Tensor, share: Tensor) -> Tensor:
        total = super().mean(votes, share)
        return total / (total.square().sum(-1, keepdim=True) + 1e-12).sqrt()


def test_serves_poses_that_cannot_be_added() -> None:
    space = Angles(2, 2)
    with pytest.raises(ValueError, match="cannot be added"):
        DenseCaps(8, 2, 3, 2, pose=space, routing="kmeans")(torch.randn(1, 8, 2))
    layer = DenseCaps(8, 2, 3, 2, pose=space, routing="sinkhorn")
    angle = torch.randn(2, 8, dtype=double)
    capsules = Capsules(torch.stack([angle.cos(), angle.sin()], -1), torch.rand(2, 8, dtype=double))
    routed = layer.double()(capsules)
    torch.testing.assert_close(routed.pose.norm(dim=-1), torch.ones(2, 3, dtype=double))
    assert_gradcheck(layer, capsules, fast_mode=True)


@pytest.mark.parametrize(
    "options",
    [{"steps": 0}, {"temperature": 0}, {"temperature": "warm"}, {"epsilon": 0}, {"learn_shares": 1}],
)
def test_a_bad_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        create_routing("sinkhorn", **options)

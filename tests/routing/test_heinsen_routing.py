from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import torch
from torch import nn

from support import references
from support.layers import GEOMETRIES, children, small
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps
from torchcaps.layers import CapsuleLayer
from torchcaps.routing import HeinsenRouting
from torchcaps.testing import assert_couplings_normalized, assert_finite_everywhere, assert_gradient_accurate
from torchcaps.votes import SharedVotes

double = torch.float64
every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES)


def randomize(module: nn.Module, scale: float = 1.0) -> None:
    """Random parameters of a routing: at their first value, 0, most mistakes would not show."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(scale * torch.randn_like(parameter))


def heinsen(
    votes: references.VotesOf,
    a: np.ndarray,
    row: Callable[[tuple, tuple], int],
    routing: HeinsenRouting,
) -> tuple[dict, dict, dict]:
    """The formulas in loops: poses and logits by parent, assignments by (child, parent)."""
    beta_use, beta_ign = (b.detach().numpy() for b in (routing.beta_use, routing.beta_ignore))
    V = {(i, j): v for j, field in votes.items() for i, v in field.items()}
    if routing.bias is not None:
        B = routing.bias.detach().numpy()
        V = {(i, j): v + B[row(j, i), j[-1]] for (i, j), v in V.items()}
    family = {i: [j for j in votes if i in votes[j]] for i, _ in V}
    R = {(i, j): 1 / len(family[i]) for i, j in V}
    mu, var, logit = {}, {}, {}
    for t in range(routing.iterations):
        if t > 0:
            for i, parents in family.items():
                score = {}
                for j in parents:
                    density = np.exp(-((V[i, j] - mu[j]) ** 2) / (2 * var[j])) / np.sqrt(2 * np.pi * var[j])
                    score[j] = density.prod() / (1 + np.exp(-logit[j]))
                for j in parents:
                    R[i, j] = score[j] / sum(score.values())
        for j, field in votes.items():
            use = {i: a[i] * R[i, j] for i in field}
            logit[j] = sum(
                beta_use[row(j, i), j[-1]] * use[i] - beta_ign[row(j, i), j[-1]] * (a[i] - use[i])
                for i in field
            )
            mass = sum(use.values())
            mu[j] = sum(use[i] * V[i, j] for i in field) / mass
            var[j] = sum(use[i] * (V[i, j] - mu[j]) ** 2 for i in field) / mass + 1e-5
    return mu, logit, R


@pytest.mark.parametrize("iterations", [1, 2, 3])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
def test_conv_layer_equals_the_formula(padding: int, bias: bool, iterations: int) -> None:
    torch.manual_seed(0)
    kernel, stride, types = 3, 2, 2
    layer = ConvCaps(
        types,
        3,
        kernel_size=kernel,
        stride=stride,
        padding=padding,
        in_dim=4,
        routing="heinsen",
        iterations=iterations,
        bias=bias,
    ).double()
    randomize(layer.routing)
    capsules = children((5, 6, types, 4), dtype=double)
    with torch.no_grad():
        routed = layer(capsules, coupling=True)

    def row(parent: tuple, child: tuple) -> int:
        y, x = child[0] - parent[0] * stride + padding, child[1] - parent[1] * stride + padding
        return (y * kernel + x) * types + child[2]

    pose, activation = capsules.pose[1].numpy(), capsules.activation[1].numpy()
    votes = references.conv_votes(pose, layer.weight.detach().numpy(), kernel, stride, padding)
    mu, logit, R = heinsen(votes, activation, row, layer.routing)
    assert len(mu) == routed.logits[1].numel()
    for parent in mu:
        np.testing.assert_allclose(routed.pose[(1, *parent)].numpy(), mu[parent], atol=1e-9)
        np.testing.assert_allclose(routed.logits[(1, *parent)].item(), logit[parent], atol=1e-9)
    for (child, parent), share in R.items():
        place = (*parent[:2], row(parent, child), parent[2])
        np.testing.assert_allclose(routed.coupling[(1, *place)].item(), share, atol=1e-9)
    torch.testing.assert_close(routed.activation, routed.logits.sigmoid())


@pytest.mark.parametrize("bias", [False, True])
def test_class_layer_equals_the_formula(bias: bool) -> None:
    torch.manual_seed(0)
    layer = ClassCaps(2, 3, in_dim=4, routing="heinsen", bias=bias).double()
    randomize(layer.routing)
    capsules = children((3, 4, 2, 4), dtype=double)
    with torch.no_grad():
        routed = layer(capsules)
    votes = references.class_votes(capsules.pose[0].numpy(), layer.weight.detach().numpy())
    activation = capsules.activation[0].numpy()
    mu, logit, _ = heinsen(votes, activation, lambda _, child: child[2], layer.routing)
    for j in range(3):
        np.testing.assert_allclose(routed.pose[0, j].numpy(), mu[j,], atol=1e-9)
        np.testing.assert_allclose(routed.logits[0, j].item(), logit[j,], atol=1e-9)


def test_a_shared_layer_equals_a_dense_one_whose_rows_are_all_the_same() -> None:
    """Its bias does not go through the votes: it moves every mean by the same."""
    torch.manual_seed(0)
    shared = SharedCaps(3, 4, 5, routing="heinsen", bias=True).double()
    randomize(shared.routing)
    dense = DenseCaps(6, 3, 4, 5, routing="heinsen", bias=True).double()
    repeated = {
        name: value.expand_as(dense.state_dict()[name]) for name, value in shared.state_dict().items()
    }
    dense.load_state_dict(repeated)
    capsules = children((6, 3), dtype=double)
    for first, second in zip(shared(capsules, coupling=True), dense(capsules, coupling=True)):
        torch.testing.assert_close(first, second)


def test_weights_of_the_published_routings() -> None:
    """64 parents of any number of children, then 5 classes of 64 children, 4×4 poses, with biases."""
    layers = [
        SharedCaps(16, 64, 16, pose="matrix", routing="heinsen", bias=True),
        DenseCaps(64, 16, 5, 16, pose="matrix", routing="heinsen", bias=True),
    ]
    counts = [sum(parameter.numel() for parameter in layer.parameters()) for layer in layers]
    assert counts == [64 * (16 + 16 + 2), 64 * 5 * (16 + 16 + 2)]


@every_geometry
def test_what_a_child_gives_to_one_parent_is_ignored_by_the_others(geometry: str) -> None:
    """All use adds up to the activation of the children that have parents, whatever the votes are."""
    layer, capsules = small(geometry, "heinsen")
    with torch.no_grad():
        layer.routing.beta_use.fill_(1.0)
        layer.routing.beta_ignore.zero_()
    used = layer(capsules).logits.flatten(1).sum(1)
    torch.testing.assert_close(used, capsules.activation.flatten(1).sum(1))
    with torch.no_grad():
        layer.routing.beta_use.zero_()
        layer.routing.beta_ignore.fill_(1.0)
    votes = layer.votes(capsules)
    offered = votes.gather(capsules.activation.flatten(1)).sum((1, 2)) * votes.parents
    ignored = -layer(capsules).logits.flatten(1).sum(1)
    first = layer.history(capsules)[0].coupling
    torch.testing.assert_close(first.flatten(1).sum(1), torch.full_like(used, votes.total_children))
    torch.testing.assert_close(ignored, offered - capsules.activation.flatten(1).sum(1))


def test_a_child_far_from_a_cluster_is_ignored_by_it() -> None:
    """Five votes agree and one does not: the tight parent uses the five, the broad one takes the outlier."""
    data = torch.tensor([[0.0], [0.1], [-0.1], [0.05], [-0.05], [8.0]], dtype=double)
    votes = SharedVotes(data[None], torch.ones(2, 1, 1, dtype=double))
    start = torch.tensor([[0.8, 0.2]] * 5 + [[0.2, 0.8]], dtype=double)[None, None]
    routing = HeinsenRouting(iterations=6).double()
    routed = routing(votes, torch.ones(1, 6, dtype=double), start, coupling=True)
    expected = torch.tensor([[1.0, 0.0]] * 5 + [[0.0, 1.0]], dtype=double)
    torch.testing.assert_close(routed.coupling[0, 0], expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(
        routed.pose[0, 0, :, 0], torch.tensor([0.0, 8.0], dtype=double), atol=0.1, rtol=0
    )


def test_a_single_parent_gets_everything() -> None:
    torch.manual_seed(0)
    layer = DenseCaps(5, 3, 1, 4, routing="heinsen")
    randomize(layer.routing)
    capsules = children((5, 3))
    routed = layer(capsules, coupling=True)
    torch.testing.assert_close(routed.coupling, torch.ones(2, 5, 1))
    torch.testing.assert_close(routed.logits[:, 0], capsules.activation @ layer.routing.beta_use[:, 0])
    weight = capsules.activation / capsules.activation.sum(1, keepdim=True)
    votes = layer.votes(capsules).tensor()[:, 0, :, 0]
    torch.testing.assert_close(routed.pose[:, 0], torch.einsum("bi,bid->bd", weight, votes))


def test_inactive_children_change_nothing() -> None:
    torch.manual_seed(0)
    layer, fewer = (DenseCaps(n, 3, 4, 5, routing="heinsen", bias=True) for n in (6, 4))
    randomize(layer.routing)
    fewer.load_state_dict({name: value[:4] for name, value in layer.state_dict().items()})
    pose, activation = children((6, 3))
    activation[:, 4:] = 0
    first, second = layer(Capsules(pose, activation)), fewer(Capsules(pose[:, :4], activation[:, :4]))
    torch.testing.assert_close(first.pose, second.pose)
    torch.testing.assert_close(first.logits, second.logits)


def test_a_parent_that_lost_all_children_does_not_attract_votes_of_zero() -> None:
    """Its mean would be 0 and its variance ε: the highest density of all for a vote of 0."""
    data = torch.tensor([[0.0], [1.0], [2.0]])
    votes = SharedVotes(data[None], torch.ones(2, 1, 1))
    start = torch.tensor([1.0, 0.0]).expand(1, 1, 3, 2)
    routed = HeinsenRouting()(votes, torch.ones(1, 3), start, coupling=True)
    torch.testing.assert_close(routed.coupling, start)


@every_geometry
def test_children_in_another_order_with_their_weights(geometry: str) -> None:
    layer, capsules = small(geometry, "heinsen-bias")
    layer, capsules = layer.double(), Capsules(*(values.double() for values in capsules))
    order = torch.randperm(capsules.pose.shape[-2])
    twin = permuted(layer, order)
    before = layer(capsules)
    after = twin(Capsules(capsules.pose[..., order, :], capsules.activation[..., order]))
    torch.testing.assert_close(after.pose, before.pose)
    torch.testing.assert_close(after.logits, before.logits)


def permuted(layer: CapsuleLayer, order: torch.Tensor) -> CapsuleLayer:
    """The layer with its weights for children in another order; those of a routing have the same rows."""
    twin = deepcopy(layer)
    if layer.routing.rows:
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.copy_(parameter.unflatten(0, (-1, len(order)))[:, order].flatten(0, 1))
    return twin


@every_geometry
def test_laws_hold_with_weights_away_from_zero(geometry: str) -> None:
    layer, capsules = small(geometry, "heinsen-bias")
    randomize(layer.routing, 3.0)
    assert_couplings_normalized(layer, capsules)
    assert_finite_everywhere(layer, capsules)
    assert_gradient_accurate(layer, capsules)


def test_an_object_fits_every_layer() -> None:
    routing = HeinsenRouting()
    randomize(routing)
    for make, shape in GEOMETRIES.values():
        layer = make(routing=routing)
        assert layer(children(shape)).logits.abs().min() > 0


def test_a_routing_made_for_another_layer_is_refused() -> None:
    votes = SharedVotes(torch.ones(2, 5, 4), torch.ones(3, 4, 4))
    with pytest.raises(ValueError, match=r"rows=\(6,\), the layer has rows=\(\)"):
        HeinsenRouting(rows=(6,))(votes, torch.ones(2, 5))
    with pytest.raises(ValueError, match="pose_dim=3, the layer has pose_dim=4"):
        HeinsenRouting(bias=True, pose_dim=3)(votes, torch.ones(2, 5))
    with pytest.raises(ValueError, match="pose_dim must be"):
        HeinsenRouting(bias=True)

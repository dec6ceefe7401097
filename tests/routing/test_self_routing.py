from copy import deepcopy
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from support import references
from support.layers import GEOMETRIES, children, small
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, PoseSpace, SharedCaps
from torchcaps.layers import CapsuleLayer
from torchcaps.routing import SelfRouting
from torchcaps.testing import assert_couplings_normalized, assert_finite_everywhere, assert_gradcheck
from torchcaps.votes import SharedVotes

double = torch.float64
every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES)


def randomize(routing: SelfRouting, scale: float = 1.0) -> None:
    """Random route weights: at their first value, 0, all couplings are even."""
    with torch.no_grad():
        for parameter in routing.parameters():
            parameter.copy_(scale * torch.randn_like(parameter))


def test_dense_layer_equals_the_formula() -> None:
    torch.manual_seed(0)
    layer = DenseCaps(6, 4, 3, 5, routing="self_routing").double()
    randomize(layer.routing)
    capsules = children((6, 4), dtype=double)
    with torch.no_grad():
        routed = layer(capsules, coupling=True)
    w, b, W = (p.detach().numpy() for p in (layer.routing.weight, layer.routing.bias, layer.weight))
    for u, a, pose, activation, logits, coupling in zip(*capsules, *routed):
        c = np.zeros((6, 3))
        for i in range(6):
            e = np.exp([w[i, j] @ u[i].numpy() + b[i, j] for j in range(3)])
            c[i] = e / e.sum()
        np.testing.assert_allclose(coupling, c)
        for j in range(3):
            mass = sum(c[i, j] * a[i].item() for i in range(6))
            total = sum(c[i, j] * a[i].item() * (u[i].numpy() @ W[i, j]) for i in range(6))
            np.testing.assert_allclose(activation[j].item(), mass / a.sum().item())
            np.testing.assert_allclose(logits[j].item(), np.log(mass / a.sum().item()))
            np.testing.assert_allclose(pose[j], total / mass)


@pytest.mark.parametrize(("stride", "padding"), [(1, 0), (2, 1), (3, 0)])
def test_conv_layer_equals_the_formula_with_a_softmax_over_all_parents(stride: int, padding: int) -> None:
    torch.manual_seed(0)
    kernel, types = 3, 2
    layer = ConvCaps(
        types, 3, kernel_size=kernel, stride=stride, padding=padding, in_dim=4, routing="self_routing"
    ).double()
    randomize(layer.routing)
    capsules = children((5, 6, types, 4), dtype=double)
    with torch.no_grad():
        routed = layer(capsules, coupling=True)
    w, b = layer.routing.weight.detach().numpy(), layer.routing.bias.detach().numpy()
    pose, a = capsules.pose[1].numpy(), capsules.activation[1].numpy()
    votes = references.conv_votes(pose, layer.weight.detach().numpy(), kernel, stride, padding)
    e, total, place = {}, {}, {}
    for (y, x, j), field in votes.items():
        for child in field:
            row = ((child[0] - y * stride + padding) * kernel + child[1] - x * stride + padding) * types
            row += child[2]
            place[child, (y, x, j)] = (1, y, x, row, j)
            e[child, (y, x, j)] = np.exp(w[row, j] @ pose[child] + b[row, j])
            total[child] = total.get(child, 0) + e[child, (y, x, j)]
    for parent, field in votes.items():
        c = {child: e[child, parent] / total[child] for child in field}
        for child in field:
            np.testing.assert_allclose(routed.coupling[place[child, parent]].item(), c[child])
        mass = sum(c[i] * a[i] for i in field)
        mean = sum(c[i] * a[i] * field[i] for i in field) / mass
        np.testing.assert_allclose(routed.pose[(1, *parent)].numpy(), mean, atol=1e-10)
        share = mass / sum(a[i] for i in field)
        np.testing.assert_allclose(routed.activation[(1, *parent)].item(), share)
    if stride == kernel:
        ones = torch.ones_like(routed.activation[..., 0])
        torch.testing.assert_close(routed.activation.sum(-1), ones)
    else:
        assert routed.activation.sum(-1).min() < 0.9


@every_geometry
def test_it_starts_with_the_couplings_of_uniform_routing(geometry: str) -> None:
    make, shape = GEOMETRIES[geometry]
    capsules = children(shape)
    ours, even = (make(routing=name)(capsules, coupling=True) for name in ("self_routing", "uniform"))
    torch.testing.assert_close(ours.coupling, even.coupling)


@pytest.mark.parametrize("geometry", ["dense", "dense-matrix", "shared", "class"])
def test_activations_of_a_layer_with_one_position_are_probabilities(geometry: str) -> None:
    layer, capsules = small(geometry, "self_routing")
    randomize(layer.routing)
    routed = layer(capsules)
    torch.testing.assert_close(routed.activation.sum(-1), torch.ones(2))
    torch.testing.assert_close(routed.logits.softmax(-1), routed.activation)


def test_a_single_parent_gets_everything() -> None:
    layer = DenseCaps(5, 3, 1, 4, routing="self_routing")
    randomize(layer.routing)
    capsules = children((5, 3))
    routed = layer(capsules, coupling=True)
    torch.testing.assert_close(routed.coupling, torch.ones(2, 5, 1))
    torch.testing.assert_close(routed.activation, torch.ones(2, 1))


def test_votes_have_no_influence_on_couplings_and_activations() -> None:
    layer, capsules = small("conv", "self_routing")
    other = deepcopy(layer)
    with torch.no_grad():
        other.weight.copy_(torch.randn_like(other.weight))
    first, second = layer(capsules, coupling=True), other(capsules, coupling=True)
    assert torch.equal(first.coupling, second.coupling)
    assert torch.equal(first.logits, second.logits)
    assert not torch.allclose(first.pose, second.pose)


def test_only_the_ratios_of_activations_matter() -> None:
    layer, (pose, activation) = small("conv", "self_routing")
    full, faint = layer(Capsules(pose, activation)), layer(Capsules(pose, 1e-6 * activation))
    torch.testing.assert_close(full.pose, faint.pose)
    torch.testing.assert_close(full.logits, faint.logits)


def test_inactive_children_give_an_inactive_parent() -> None:
    layer, (pose, activation) = small("conv", "self_routing")
    routed = layer(Capsules(pose, torch.zeros_like(activation)))
    assert torch.equal(routed.activation, torch.zeros_like(routed.activation))
    assert torch.equal(routed.pose, torch.zeros_like(routed.pose))


@every_geometry
def test_couplings_given_as_a_start_are_priors(geometry: str) -> None:
    layer, capsules = small(geometry, "self_routing")
    own, prior = (deepcopy(layer) for _ in range(2))
    with torch.no_grad():
        prior.routing.weight.zero_()
    start = prior(capsules, coupling=True).coupling
    with torch.no_grad():
        layer.routing.bias.zero_()
    again = layer(capsules, start=start, coupling=True).coupling
    torch.testing.assert_close(again, own(capsules, coupling=True).coupling)


@every_geometry
def test_children_in_another_order_with_their_weights(geometry: str) -> None:
    layer, capsules = small(geometry, "self_routing")
    order = torch.randperm(capsules.pose.shape[-2])
    twin = permuted(layer, order)
    before = layer(capsules)
    after = twin(Capsules(capsules.pose[..., order, :], capsules.activation[..., order]))
    torch.testing.assert_close(after.pose, before.pose)
    torch.testing.assert_close(after.logits, before.logits)


def permuted(layer: CapsuleLayer, order: Tensor) -> CapsuleLayer:
    """The layer with its weights for children in another order; those of a routing have the same rows."""
    twin = deepcopy(layer)
    if layer.routing.rows:
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.copy_(parameter.unflatten(0, (-1, len(order)))[:, order].flatten(0, 1))
    return twin


@every_geometry
def test_laws_hold_with_weights_away_from_zero(geometry: str) -> None:
    layer, capsules = small(geometry, "self_routing")
    randomize(layer.routing, 3.0)
    assert_couplings_normalized(layer, capsules)
    assert_finite_everywhere(layer, capsules)


class AnglePose(PoseSpace):
    """A pose is a unit vector in the plane, and a vote is turned by a learned angle."""

    linear: ClassVar[bool] = False

    @property
    def weight_shape(self) -> tuple[int, ...]:
        return ()

    def initial_weight(self, *pairs: int) -> Tensor:
        return torch.randn(*pairs)

    def compose(self, pose: Tensor, weight: Tensor) -> Tensor:
        x, y = pose.unsqueeze(-2).unbind(-1)
        return torch.stack([x * weight.cos() - y * weight.sin(), x * weight.sin() + y * weight.cos()], -1)

    def mean(self, votes: Tensor, share: Tensor) -> Tensor:
        return torch.nn.functional.normalize(super().mean(votes, share), dim=-1)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (DenseCaps(4, 2, 3, 2, pose=AnglePose(2, 2), routing="self_routing"), (4, 2)),
        (SharedCaps(2, 3, 2, pose=AnglePose(2, 2), routing="self_routing"), (4, 2)),
        (ConvCaps(2, 3, kernel_size=2, pose=AnglePose(2, 2), routing="self_routing"), (3, 3, 2, 2)),
        (ClassCaps(2, 3, pose=AnglePose(2, 2), coordinates=False, routing="self_routing"), (3, 3, 2, 2)),
    ],
)
def test_poses_that_cannot_be_added_have_the_mean_of_their_space(
    layer: CapsuleLayer, shape: tuple[int, ...]
) -> None:
    randomize(layer.routing)
    pose, activation = children(shape)
    capsules = Capsules(torch.nn.functional.normalize(pose, dim=-1), activation)
    routed = layer(capsules, coupling=True)
    torch.testing.assert_close(routed.pose.norm(dim=-1), torch.ones_like(routed.activation))
    assert_couplings_normalized(layer, capsules)
    assert_gradcheck(layer, capsules, fast_mode=True)


def test_an_object_fits_every_layer_and_routes_evenly() -> None:
    routing = SelfRouting()
    randomize(routing)
    for make, shape in GEOMETRIES.values():
        capsules = children(shape)
        even = make(routing="uniform")(capsules, coupling=True).coupling
        torch.testing.assert_close(make(routing=routing)(capsules, coupling=True).coupling, even)


def test_route_weights_can_be_shared_by_all_children_of_any_layer() -> None:
    routing = SelfRouting(parents=3, in_dim=4)
    randomize(routing)
    dense, shared = DenseCaps(6, 4, 3, 4, routing=routing), SharedCaps(4, 3, 4, routing=routing)
    capsules = children((6, 4))
    first, second = (layer(capsules, coupling=True).coupling for layer in (dense, shared))
    torch.testing.assert_close(first, second)
    assert (first - 1 / 3).abs().max() > 0.1
    for layer in (
        ConvCaps(2, 3, kernel_size=2, in_dim=4, routing=routing),
        ClassCaps(2, 3, in_dim=4, routing=routing),
    ):
        assert_couplings_normalized(layer, children((3, 3, 2, 4)))


def test_a_routing_made_for_another_layer_is_refused() -> None:
    votes = SharedVotes(torch.ones(2, 5, 4), torch.ones(3, 4, 4))
    with pytest.raises(ValueError, match=r"rows=\(6,\), the layer has rows=\(\)"):
        SelfRouting(rows=(6,))(votes, torch.ones(2, 5))
    with pytest.raises(ValueError, match="in_dim=3, the layer has in_dim=4"):
        SelfRouting(in_dim=3)(votes, torch.ones(2, 5))

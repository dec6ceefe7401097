"""What all capsule layers share: construction, shapes, precision, copies, compilation, and their doors."""

from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import torch

from support.layers import GEOMETRIES, ROUTINGS, children, small
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, SharedCaps, kernels
from torchcaps.poses import VectorPose
from torchcaps.routing import EMRouting
from torchcaps.votes import ConvVotes

every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES)


def test_weights_and_couplings_have_the_documented_shapes() -> None:
    flat, grid = children((6, 8)), children((7, 9, 2, 16))
    dense = DenseCaps(6, 8, 3, 4)
    assert dense.weight.shape == (6, 3, 8, 4)
    assert dense(flat, coupling=True).coupling.shape == (2, 6, 3)
    shared = SharedCaps(8, 3, 4)
    assert shared.weight.shape == (3, 8, 4)
    assert shared(flat, coupling=True).pose.shape == (2, 3, 4)
    conv = ConvCaps(2, 5, kernel_size=3, stride=2)
    assert conv.weight.shape == (18, 5, 4, 4)
    routed = conv(grid, coupling=True)
    assert routed.pose.shape == (2, 3, 4, 5, 16)
    assert routed.activation.shape == routed.logits.shape == (2, 3, 4, 5)
    assert routed.coupling.shape == (2, 3, 4, 18, 5)
    classes = ClassCaps(2, 5)
    assert classes.weight.shape == (2, 5, 4, 4)
    assert classes(grid, coupling=True).coupling.shape == (2, 7 * 9 * 2, 5)


@pytest.mark.parametrize("routing", ["dynamic", "kmeans", "em", "uniform"])
def test_parents_with_the_same_weights_are_the_same(routing: str) -> None:
    """Nothing but the transformations tells parents apart, as the essay of 2018 says."""
    layer = DenseCaps(6, 4, 3, 4, routing=routing)
    with torch.no_grad():
        layer.weight.copy_(layer.weight[:, :1].expand_as(layer.weight))
    parents = layer(torch.randn(2, 6, 4))
    torch.testing.assert_close(parents.pose, parents.pose[:, :1].expand_as(parents.pose))


def test_dense_layers_take_a_grid_and_bare_vectors() -> None:
    layer, grid = DenseCaps(2 * 3 * 4, 5, 3, 4), torch.randn(2, 2, 3, 4, 5)
    torch.testing.assert_close(layer(grid).pose, layer(Capsules.from_vectors(grid.flatten(1, 3))).pose)


def test_a_conv_layer_over_the_whole_image_is_a_dense_one() -> None:
    conv = ConvCaps(2, 3, kernel_size=3, in_dim=4)
    dense = DenseCaps(18, 4, 3, 4, pose="matrix", routing=conv.routing)
    dense.weight = conv.weight
    capsules = children((3, 3, 2, 4))
    torch.testing.assert_close(conv(capsules).pose[:, 0, 0], dense(capsules).pose)
    torch.testing.assert_close(conv(capsules).activation[:, 0, 0], dense(capsules).activation)


def test_shared_layers_take_any_number_of_children_even_none() -> None:
    layer = SharedCaps(8, 3, 4)
    for count in (0, 1, 50):
        assert layer(torch.randn(2, count, 8)).pose.isfinite().all()


@every_geometry
def test_an_empty_batch_gives_an_empty_batch(geometry: str) -> None:
    layer, capsules = small(geometry, "em")
    assert layer(Capsules(*(values[:0] for values in capsules))).pose.shape[0] == 0


@every_geometry
def test_copies_and_saved_weights_give_the_same(geometry: str) -> None:
    layer, capsules = small(geometry, "em")
    other, _ = small(geometry, "em")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(layer.state_dict())
    for twin in (deepcopy(layer), other):
        assert torch.equal(twin(capsules).pose, layer(capsules).pose)


@every_geometry
@pytest.mark.parametrize("routing", ["uniform", "dynamic", "kmeans", "em"])
def test_autocast_routes_in_float32(geometry: str, routing: str) -> None:
    layer, capsules = small(geometry, routing)
    full = layer(capsules)
    with torch.autocast("cpu", torch.bfloat16):
        parents = layer(Capsules(*(values.bfloat16() for values in capsules)))
    assert parents.pose.dtype == parents.activation.dtype == torch.float32
    torch.testing.assert_close(parents.pose, full.pose, atol=0.1, rtol=0.1)


def test_an_object_is_taken_as_routing_and_serves_any_layer() -> None:
    routing = EMRouting(iterations=2, covariance="spherical")
    for geometry, (make, shape) in GEOMETRIES.items():
        layer = make(routing=routing)
        assert layer.routing is routing, geometry
        assert layer(children(shape)).pose.isfinite().all()


def test_forward_returns_everything_and_couplings_only_if_asked_for() -> None:
    layer, capsules = small("conv", "em")
    plain, full = layer(capsules), layer(capsules, coupling=True)
    assert plain.coupling is None
    assert full.coupling is not None
    torch.testing.assert_close(plain.logits, full.logits)
    assert full.capsules == Capsules(full.pose, full.activation)


def test_the_output_of_a_layer_is_the_input_of_the_next() -> None:
    first = ConvCaps(2, 3, kernel_size=3)
    second = ClassCaps(3, 4)
    grid = first(children((5, 5, 2, 16)))
    torch.testing.assert_close(second(grid).pose, second(Capsules(grid.pose, grid.activation)).pose)


@pytest.mark.parametrize("geometry", ["dense", "shared", "conv", "class"])
def test_a_start_in_the_shape_of_the_couplings_is_what_routing_starts_from(geometry: str) -> None:
    layer, capsules = small(geometry, "dynamic", iterations=1)
    even = layer(capsules, coupling=True).coupling
    assert even is not None
    again = layer(capsules, start=even, coupling=True)
    torch.testing.assert_close(again.coupling, even)
    first = layer.history(capsules, start=even)[0]
    torch.testing.assert_close(first.pose, again.pose)


@pytest.mark.parametrize("routing", ["dynamic", "em", "kmeans", "uniform"])
@pytest.mark.parametrize("geometry", ["dense", "shared", "conv", "class"])
def test_a_learned_prior_starts_even_and_is_learned(geometry: str, routing: str) -> None:
    layer, capsules = small(geometry, routing)
    twin, _ = small(geometry, routing, learn_prior=True)
    twin.load_state_dict({**layer.state_dict(), "log_prior": torch.zeros_like(twin.log_prior)})
    torch.testing.assert_close(twin(capsules).pose, layer(capsules).pose, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        twin.log_prior.copy_(torch.randn_like(twin.log_prior))
    output = twin(capsules, coupling=True)
    even, learned = (each.history(capsules)[0].coupling for each in (layer, twin))
    assert not torch.allclose(even, learned, atol=1e-2)
    (output.pose.square().sum() + output.logits.square().sum()).backward()
    assert twin.log_prior.grad.abs().sum() > 0


def test_a_prior_alone_decides_what_one_iteration_of_uniform_routing_does() -> None:
    layer = DenseCaps(2, 3, 2, 3, routing="uniform", learn_prior=True)
    with torch.no_grad():
        layer.log_prior.copy_(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
    coupling = layer(torch.randn(1, 2, 3), coupling=True).coupling
    torch.testing.assert_close(coupling[0], layer.log_prior.softmax(1))


compiled = [
    pytest.param(name, marks=() if name in ("dynamic", "em") else pytest.mark.slow) for name in ROUTINGS
]


@pytest.mark.parametrize("routing", compiled)
@pytest.mark.parametrize("geometry", ["dense", "conv"])
def test_compiles_whole(geometry: str, routing: str) -> None:
    layer, capsules = small(geometry, routing)
    torch._dynamo.reset()
    with kernels.disabled():
        whole = torch.compile(layer, backend="eager", fullgraph=True)(capsules)
        torch.testing.assert_close(whole.pose, layer(capsules).pose)


@pytest.mark.slow
@pytest.mark.parametrize("geometry", ["dense", "conv"])
@pytest.mark.parametrize("routing", ROUTINGS)
def test_exports(geometry: str, routing: str) -> None:
    layer, capsules = small(geometry, routing)
    with kernels.disabled():
        exported = torch.export.export(layer, (capsules,)).module()
        torch.testing.assert_close(exported(capsules).pose, layer(capsules).pose)


DENSE, CONV, CLASS = (
    DenseCaps(6, 8, 3, 4),
    ConvCaps(2, 3, kernel_size=3, in_dim=4),
    ClassCaps(2, 3, in_dim=4),
)
flat = torch.ones(2, 6, 8)


@pytest.mark.parametrize(
    ("layer", "given", "says"),
    [
        (DENSE, torch.ones(2, 7, 8), r"pose must be \[B, N=6"),
        (DENSE, torch.ones(2, 6, 7), "pose must have 8 numbers per capsule, got 7"),
        (DENSE, torch.ones(2, 8), "pose must have at least 3 dimensions"),
        (DENSE, torch.tensor(1.0), "pose must have at least 3 dimensions"),
        (DENSE, torch.ones(2, 6, 8, dtype=torch.int64), "pose must be a floating"),
        (DENSE, flat.double(), "pose must be torch.float32 as the weights are"),
        (DENSE, flat.bfloat16() > 0, "pose must be a floating"),
        (DENSE, None, "capsules must be"),
        (DENSE, [flat, flat[..., 0]], "capsules must be"),
        (DENSE, Capsules(None, None), "pose must be a tensor"),  # type: ignore[arg-type]
        (DENSE, Capsules(flat, None), "activation must be a tensor"),  # type: ignore[arg-type]
        (DENSE, Capsules(flat, torch.ones(2, 5)), r"activation must have one number per pose \[2, 6\]"),
        (DENSE, Capsules(flat, torch.ones(2, 6, dtype=torch.int32)), "activation must be a floating"),
        (DENSE, Capsules(flat, torch.ones(2, 6).double()), "activation must be torch.float32"),
        (CONV, torch.ones(2, 9, 4), r"pose must be \[B, H, W, C=2"),
        (CONV, torch.ones(2, 5, 5, 3, 4), r"pose must be \[B, H, W, C=2"),
        (CONV, torch.ones(2, 5, 5, 2, 9), "pose must have 4 numbers"),
        (CONV, torch.ones(2, 2, 5, 2, 4), "height 2"),
        (CLASS, torch.ones(2, 9, 4), r"pose must be \[B, H, W, C=2"),
        (CLASS, torch.ones(2, 5, 5, 3, 4), r"pose must be \[B, H, W, C=2"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(layer: Any, given: Any, says: str) -> None:
    for call in (layer, partial(layer, coupling=True), layer.history):
        with pytest.raises(ValueError, match=says):
            call(given)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DenseCaps(0, 8, 3, 4), "in_capsules"),
        (lambda: DenseCaps(6, -8, 3, 4), "in_dim"),
        (lambda: DenseCaps(6, 8, 3.0, 4), "out_capsules"),
        (lambda: DenseCaps(6, 8, 3, "4"), "out_dim"),
        (lambda: DenseCaps(6, 8, 3, 8, pose="matrix"), "in_dim = out_dim = P·P"),
        (lambda: DenseCaps(6, 8, 3, 4, pose="matrx"), "did you mean 'matrix'"),
        (lambda: DenseCaps(6, 8, 3, 4, pose=True), "pose must be a name or a PoseSpace"),
        (lambda: DenseCaps(6, 8, 3, 4, pose=VectorPose(8, 5)), "out_dim=4, but the pose space"),
        (lambda: DenseCaps(6, 8, 3, 4, routing="emm"), "did you mean 'em'"),
        (lambda: DenseCaps(6, 8, 3, 4, routing=EMRouting), "routing must be a name or a Routing"),
        (lambda: DenseCaps(6, 8, 3, 4, routing=EMRouting(), iterations=2), "routing is already an object"),
        (lambda: DenseCaps(6, 8, 3, 4, iteration=2), "did you mean 'iterations'"),
        (lambda: DenseCaps(6, 8, 3, 4, parents=2), "parents is set by the layer"),
        (lambda: DenseCaps(6, 8, 3, 4, pose_dim=2), "pose_dim is set by the layer"),
        (lambda: SharedCaps(8, 0, 4), "out_capsules"),
        (lambda: ConvCaps(0, 3, kernel_size=3), "in_types"),
        (lambda: ConvCaps(2, 0, kernel_size=3), "out_types"),
        (lambda: ConvCaps(2, 3, kernel_size=(3, 3)), "kernel_size"),
        (lambda: ConvCaps(2, 3, kernel_size=3, stride=0), "stride"),
        (lambda: ConvCaps(2, 3, kernel_size=3, padding=3), "padding must be below kernel_size"),
        (lambda: ConvCaps(2, 3, kernel_size=3, in_dim=0), "in_dim"),
        (lambda: ConvCaps(2, 3, kernel_size=3, in_dim=16, out_dim=9), "in_dim = out_dim = P·P"),
        (lambda: ConvCaps(2, 3, kernel_size=3, pose="vector", in_dim=3, out_dim=0), "out_dim"),
        (lambda: ClassCaps(2, 0), "classes"),
        (lambda: ClassCaps(2, 3, in_dim=1), "coordinates"),
        (lambda: ClassCaps(2, 3, coordinates="no"), "coordinates must be True or False"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(make: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_votes_of_a_layer_are_lazy() -> None:
    votes = CONV.votes(children((5, 5, 2, 4)))
    assert isinstance(votes, ConvVotes)
    assert votes.weight is CONV.weight

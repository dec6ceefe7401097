"""The laws of a capsule layer, for every routing in every geometry, in every small shape."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.layers import FEW, GEOMETRIES, LEAKY, ROUTINGS, Options, layers, small
from torchcaps.routing import routing_options
from torchcaps.testing import (
    assert_batch_independent,
    assert_child_permutation,
    assert_couplings_normalized,
    assert_finite_everywhere,
    assert_gradcheck,
    assert_iterations,
    assert_padding_never_votes,
    assert_start_used,
)

pytestmark = pytest.mark.usefixtures("plain")

every_geometry = pytest.mark.parametrize("geometry", GEOMETRIES)
every_routing = pytest.mark.parametrize("routing", {**ROUTINGS, **LEAKY})


def options_of(routing: str, **more: Any) -> Options:
    return {**ROUTINGS, **LEAKY}[routing] | more


@every_geometry
@every_routing
@given(st.data())
@FEW
def test_laws(routing: str, geometry: str, data: st.DataObject) -> None:
    layer, capsules = data.draw(layers(geometry, options_of(routing)))
    if routing not in LEAKY:
        assert_couplings_normalized(layer, capsules)
    assert_batch_independent(layer, capsules, atol=1e-4)
    assert_child_permutation(layer.double(), capsules_of(capsules, torch.float64), atol=1e-6)


@every_geometry
@every_routing
@given(st.data())
@FEW
def test_finite_everywhere(routing: str, geometry: str, data: st.DataObject) -> None:
    layer, capsules = data.draw(layers(geometry, options_of(routing)))
    assert_finite_everywhere(layer, capsules)


@every_geometry
@every_routing
def test_gradcheck(routing: str, geometry: str) -> None:
    layer, capsules = small(geometry, routing)
    assert_gradcheck(layer, capsules, fast_mode=True)


@every_routing
def test_padding_never_votes(routing: str) -> None:
    layer, capsules = small("conv", routing)
    assert_padding_never_votes(layer, capsules, atol=1e-4)


@every_geometry
@every_routing
def test_every_iteration_is_yielded_and_the_start_is_used(routing: str, geometry: str) -> None:
    layer, capsules = small(geometry, routing)
    assert_iterations(layer, capsules)
    if routing not in LEAKY:
        assert_start_used(layer, capsules, atol=1e-4)


@every_geometry
@every_routing
def test_same_numbers_every_time(routing: str, geometry: str) -> None:
    layer, capsules = small(geometry, routing)
    runs = []
    for _ in range(2):
        pose = capsules.pose.clone().requires_grad_()
        routed = layer(capsules._replace(pose=pose), coupling=True)
        (routed.pose.sum() + routed.activation.sum()).backward()
        runs.append((*routed, pose.grad))
    for first, second in zip(*runs):
        assert torch.equal(first, second)


@every_geometry
@every_routing
def test_trace_ends_where_route_does(routing: str, geometry: str) -> None:
    layer, capsules = small(geometry, routing)
    trace = layer.history(capsules)
    assert len(trace) == layer.routing.iterations
    for last, routed in zip(trace[-1], layer(capsules, coupling=True)):
        assert torch.equal(last, routed)


iterative = [
    name for name, options in ROUTINGS.items() if "iterations" in routing_options(options["routing"])
]


@pytest.mark.parametrize("routing", iterative)
def test_fewer_iterations_are_a_prefix(routing: str) -> None:
    longer, capsules = small("conv", routing, iterations=4)
    shorter, _ = small("conv", routing, iterations=2)
    assert torch.equal(longer.history(capsules)[1].pose, shorter(capsules, coupling=True).pose)


def capsules_of(capsules, dtype: torch.dtype):
    return type(capsules)(*(values.to(dtype) for values in capsules))

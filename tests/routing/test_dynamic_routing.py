import numpy as np
import pytest
import torch

from support import references
from support.layers import small
from torchcaps import DenseCaps, squash
from torchcaps.routing import DynamicRouting
from torchcaps.votes import SharedVotes

pytestmark = pytest.mark.usefixtures("plain")
double = torch.float64


@pytest.mark.parametrize("update", ["accumulate", "fixed_point"])
@pytest.mark.parametrize("iterations", [1, 2, 3, 5])
def test_equals_the_papers_procedure(iterations: int, update: str) -> None:
    layer = DenseCaps(6, 8, 4, 5, iterations=iterations, update=update).double()
    children = squash(3 * torch.randn(3, 6, 8, dtype=double))
    with torch.no_grad():
        layer.weight.mul_(10)  # votes long enough that routing does something
        routed = layer(children, coupling=True)
    assert routed.coupling is not None
    for b in range(3):
        votes = np.einsum("id,ijde->ije", children[b].numpy(), layer.weight.detach().numpy())
        v, c = references.dynamic_routing(votes, iterations, update)
        np.testing.assert_allclose(routed.pose[b].numpy(), v, atol=1e-12)
        np.testing.assert_allclose(routed.coupling[b].numpy(), c, atol=1e-12)
        np.testing.assert_allclose(routed.activation[b].numpy(), np.linalg.norm(v, axis=-1), atol=1e-12)


def test_accumulation_hardens_where_the_fixed_point_converges() -> None:
    votes = SharedVotes(torch.randn(2, 30, 4), torch.randn(3, 4, 4))
    hard = DynamicRouting(iterations=200)(votes, torch.ones(2, 30), coupling=True).coupling
    soft = DynamicRouting(iterations=200, update="fixed_point").history(votes, torch.ones(2, 30))
    assert hard is not None
    assert hard.amax(-1).min() > 0.99
    torch.testing.assert_close(soft[-1].pose, soft[-2].pose, atol=1e-4, rtol=0)
    assert soft[-1].coupling is not None
    assert soft[-1].coupling.amax(-1).min() < 0.9


def test_gradient_of_the_last_iteration_takes_its_coupling_as_given() -> None:
    layer, capsules = small("dense", "dynamic", gradient="last")
    routed = layer(capsules, coupling=True)
    (grad,) = torch.autograd.grad(routed.pose.square().sum(), layer.weight)
    votes = layer.votes(capsules).tensor()[:, 0]
    assert routed.coupling is not None
    given = squash(torch.einsum("bij,bijd->bjd", routed.coupling.detach(), votes))
    (wanted,) = torch.autograd.grad(given.square().sum(), layer.weight)
    torch.testing.assert_close(grad, wanted)
    through_all, _ = small("dense", "dynamic")
    torch.testing.assert_close(through_all(capsules, coupling=True).pose, routed.pose)


def test_bias_starts_at_a_tenth_and_is_added_before_the_squash() -> None:
    layer = DenseCaps(3, 4, 2, 5, bias=True)
    torch.testing.assert_close(
        layer(torch.zeros(1, 3, 4), coupling=True).pose, squash(torch.full((1, 2, 5), 0.1))
    )


def test_leaky_children_keep_a_part() -> None:
    layer, capsules = small("dense", "dynamic-leaky", iterations=1)
    coupling = layer(capsules, coupling=True).coupling
    torch.testing.assert_close(coupling, torch.full_like(coupling, 1 / 4))

"""The operators in PyTorch: threads, samples, extremes, compile, export, transforms and subclasses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from support.kernel_cases import Case, classes, conv, dense_matrix, outputs, run, shared_matrix, vectors
from torchcaps import kernels
from torchcaps.kernels.dynamic import dynamic_backward, dynamic_forward
from torchcaps.kernels.em import em_backward, em_forward
from torchcaps.kernels.em_rows import em_rows_backward, em_rows_forward
from torchcaps.kernels.heinsen import heinsen_backward, heinsen_forward
from torchcaps.layers import ClassCaps, ConvCaps, DenseCaps
from torchcaps.routing import DynamicRouting, EMRouting, HeinsenRouting, Routing
from torchcaps.votes import DenseVotes

Form = Callable[..., tuple[Routing, Case]]
FORMS: dict[str, Form] = {
    "em conv": lambda **sizes: (EMRouting(4, normalize_mass=True, inverse_temperature=0.5), conv(**sizes)),
    "em class": lambda **sizes: (EMRouting(5, activation="mixing"), classes(**sizes)),
    "em rows": lambda **sizes: (EMRouting(4, covariance="rows"), conv(**sizes)),
    "heinsen conv": lambda **sizes: (HeinsenRouting(4, rows=(27,), bias=True, pose_dim=16), conv(**sizes)),
    "heinsen shared": lambda **sizes: (HeinsenRouting(3, bias=True, pose_dim=16), shared_matrix(**sizes)),
    "dynamic dense": lambda **sizes: (DynamicRouting(4, bias=True, pose_dim=7), vectors(**sizes)),
    "dynamic shared": lambda **sizes: (DynamicRouting(4), vectors(shared=True, **sizes)),
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def same_bits(first: tuple[list[Tensor], ...], second: tuple[list[Tensor], ...]) -> bool:
    return all(torch.equal(a, b) for pair in zip(first, second) for a, b in zip(*pair))


@each_form
def test_runs_and_threads_give_the_same_bits(form: Form) -> None:
    routing, case = form(batch=35, dtype=torch.float32)
    results = []
    for threads in (1, 1, 2, 4):
        torch.set_num_threads(threads)
        results.append(run(routing, case, fused=True))
    assert all(same_bits(results[0], other) for other in results[1:])


@each_form
def test_samples_are_independent(form: Form) -> None:
    routing, case = form(batch=3, dtype=torch.float32)
    together = outputs(routing(case.votes(), case.activation, coupling=False))
    for b in range(3):
        votes = case.geometry(case.pose[b : b + 1], case.weight)
        alone = outputs(routing(votes, case.activation[b : b + 1], coupling=False))
        assert all(torch.equal(batch[b : b + 1], one) for batch, one in zip(together, alone))


@each_form
def test_an_empty_batch(form: Form) -> None:
    routing, case = form(batch=0, dtype=torch.float32)
    values, gradients = run(routing, case, fused=True)
    assert values[0].shape[0] == 0
    assert all((g == 0).all() for g in gradients)


EXTREMES: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "zeros": lambda pose, activation: (pose * 0, activation),
    "dead": lambda pose, activation: (pose, activation * 0),
    "all zero": lambda pose, activation: (pose * 0, activation * 0),
    "large": lambda pose, activation: (pose * 1e15, activation),
    "small": lambda pose, activation: (pose * 1e-15, activation),
    "small activation": lambda pose, activation: (pose, activation * 1e-15),
    "equal": lambda pose, activation: (torch.ones_like(pose), activation),
}


@pytest.mark.parametrize("extreme", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@each_form
def test_finite_at_extremes(
    form: Form, dtype: torch.dtype, extreme: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> None:
    routing, case = form(dtype=dtype)
    routing = routing.to(dtype)
    case.pose, case.activation = extreme(case.pose, case.activation)
    fused, plain = (run(routing, case, fused=f) for f in (True, False))
    for kind in (0, 1):
        for actual, expected in zip(fused[kind], plain[kind]):
            assert actual.dtype == expected.dtype
            assert actual.shape == expected.shape
            assert actual.isfinite().all()


@pytest.mark.parametrize("make", [dense_matrix, shared_matrix, vectors])
def test_one_child(make: Callable[..., Case]) -> None:
    case = make(children=1, dtype=torch.float32)
    routing: Routing = DynamicRouting() if make is vectors else EMRouting()
    assert all(t.isfinite().all() for kind in run(routing, case, fused=True) for t in kind)


def test_nan_stays_nan() -> None:
    case = conv(dtype=torch.float32)
    case.pose[0, 0, 0, 0, 0] = float("nan")
    result = EMRouting()(case.votes(), case.activation, coupling=False)
    assert result.pose[0].isnan().any()
    assert result.pose[1].isfinite().all()


def em_arguments(case: Case, requires_grad: bool = True) -> tuple[Any, ...]:
    pose, weight, activation = (t.requires_grad_(requires_grad) for t in case.leaves())
    votes = case.geometry(pose, weight)
    beta = [torch.randn(votes.parents, dtype=pose.dtype, requires_grad=requires_grad) for _ in range(2)]
    rows = weight if weight.ndim == 4 else weight.unsqueeze(0)
    return (votes.pose.detach().requires_grad_(requires_grad), activation, rows, *beta, votes.index, None,
            [0.1, 0.2], 1.0, 1e-6)  # fmt: skip


def test_opcheck_em() -> None:
    torch.library.opcheck(em_forward, em_arguments(conv()))
    torch.library.opcheck(em_forward, em_arguments(dense_matrix(dtype=torch.float32)))
    arguments = em_arguments(conv(), requires_grad=False)
    pose, activation, logit, statistics = em_forward(*arguments)
    torch.library.opcheck(em_backward, (pose, activation, logit, statistics, *arguments))


def test_opcheck_em_rows() -> None:
    for case in (conv(), dense_matrix()):
        torch.library.opcheck(em_rows_forward, (*em_arguments(case), True))
        arguments = (*em_arguments(case, requires_grad=False), True)
        torch.library.opcheck(em_rows_backward, (*em_rows_forward(*arguments), *arguments))


@pytest.mark.parametrize("bias", [False, True])
def test_opcheck_heinsen(bias: bool) -> None:
    for case in (conv(), dense_matrix(dtype=torch.float32)):
        pose, activation, weight, _, _, index, *_ = em_arguments(case)
        beta = [torch.randn_like(weight[..., 0, 0]).requires_grad_() for _ in range(2)]
        vector = torch.randn_like(weight.flatten(2)).requires_grad_() if bias else None
        tensors = (pose, activation, weight, *beta, vector)
        torch.library.opcheck(heinsen_forward, (*tensors, index, None, 3, 1e-5))
        plain = [None if t is None else t.detach() for t in tensors]
        outputs = heinsen_forward(*plain, index, None, 3, 1e-5)
        torch.library.opcheck(heinsen_backward, (*outputs, *plain, index, None, 3, 1e-5))


@pytest.mark.parametrize("bias", [False, True])
def test_opcheck_dynamic(bias: bool) -> None:
    pose, weight, _ = vectors().leaves()
    vector = torch.randn(4, 7, dtype=pose.dtype, requires_grad=True) if bias else None
    options = (None, False, 3, True, False, True)
    torch.library.opcheck(dynamic_forward, (pose, weight, vector, *options))
    plain = [None if t is None else t.detach() for t in (pose, weight, vector)]
    out_pose, totals = dynamic_forward(*plain, *options)
    torch.library.opcheck(dynamic_backward, (out_pose, totals, *plain, *options))


class Network(torch.nn.Module):
    """All kernels, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = ConvCaps(2, 3, kernel_size=3, stride=2)
        self.classes = ClassCaps(3, 4)
        self.mixture = DenseCaps(4, 16, 4, 16, pose="matrix", routing="heinsen", bias=True)
        self.dense = DenseCaps(4, 16, 2, 5)

    def forward(self, pose: Tensor, activation: Tensor) -> Tensor:
        classes = self.classes(self.conv((pose, activation)))
        return self.dense(self.mixture(classes.capsules).pose).activation


def test_compile_keeps_the_operators() -> None:
    network = Network()
    inputs = torch.randn(2, 5, 5, 2, 16), torch.rand(2, 5, 5, 2)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    actual, expected = compiled(*inputs), network(*inputs)
    assert torch.allclose(actual, expected)
    gradients = [torch.autograd.grad(out.sum(), list(network.parameters())) for out in (actual, expected)]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients))


def nodes_of(exported: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """The nodes of all graphs; code that runs without autocast is in a graph of its own."""
    modules = [m for m in exported.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return [node for module in modules for node in module.graph.nodes]


def test_an_export_has_no_custom_operators() -> None:
    network, inputs = Network().eval(), (torch.randn(2, 5, 5, 2, 16), torch.rand(2, 5, 5, 2))
    exported = torch.export.export(network, inputs)
    assert not any("torchcaps" in str(node.target) for node in nodes_of(exported))
    assert torch.allclose(exported.module()(*inputs), network(*inputs), atol=1e-6)


def test_plain_form_where_kernels_do_not_fit() -> None:
    case = conv(dtype=torch.float32)
    votes, activation = case.votes(), case.activation
    assert EMRouting().fused(votes, activation) is not None
    assert EMRouting(covariance="full").fused(votes, activation) is None
    assert EMRouting(activation="mixing_layer").fused(votes, activation) is None
    with kernels.disabled():
        assert EMRouting().fused(votes, activation) is None


class Doubled(DenseVotes):
    """A geometry written by a user, with doubled votes."""

    def compute(self, poses: Tensor) -> Tensor:
        return 2 * super().compute(poses)


@pytest.mark.parametrize(
    ("routing", "make"),
    [(EMRouting(), dense_matrix), (HeinsenRouting(), dense_matrix), (DynamicRouting(), vectors)],
)
def test_subclasses_of_votes_use_the_plain_form(routing: Routing, make: Callable[..., Case]) -> None:
    case = make(dtype=torch.float32)
    votes = Doubled(case.pose, case.weight, "matrix" if make is dense_matrix else "vector")
    assert routing.fused(votes, case.activation) is None
    plain = routing(votes, case.activation, coupling=True)
    assert torch.equal(routing(votes, case.activation).pose, plain.pose)


def test_transforms_use_the_plain_form() -> None:
    case = vectors()
    routing = DynamicRouting()

    def lengths(pose: Tensor) -> Tensor:
        return routing(case.geometry(pose, case.weight), case.activation, coupling=False).activation

    slope = torch.func.jvp(lengths, (case.pose,), (torch.ones_like(case.pose),))[1]
    assert slope.isfinite().all()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(case.pose, torch.ones_like(case.pose))
        assert torch.allclose(torch.autograd.forward_ad.unpack_dual(lengths(dual)).tangent, slope)


def test_half_precision_is_routed_in_float32() -> None:
    case = conv(dtype=torch.float32)
    half = case.geometry(case.pose.bfloat16(), case.weight.bfloat16())
    assert EMRouting().fused(half, case.activation) is not None
    assert EMRouting()(half, case.activation.bfloat16()).pose.dtype == torch.float32

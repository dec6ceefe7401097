"""What PyTorch and users ask of the operators, whatever they compute."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

from support.kernel_cases import classes, conv, dense_matrix, outputs, run, shared_matrix, vectors
from torchcaps import kernels
from torchcaps.kernels import dispatch
from torchcaps.kernels.dynamic import dynamic_backward, dynamic_forward
from torchcaps.kernels.em import em_backward, em_forward
from torchcaps.layers import ClassCaps, ConvCaps, DenseCaps
from torchcaps.routing import DynamicRouting, EMRouting
from torchcaps.votes import DenseVotes

FORMS = {
    "em conv": lambda **sizes: (EMRouting(4, normalize_mass=True, inverse_temperature=0.5), conv(**sizes)),
    "em class": lambda **sizes: (EMRouting(5, activation="mixing"), classes(**sizes)),
    "dynamic dense": lambda **sizes: (DynamicRouting(4, bias=True, pose_dim=7), vectors(**sizes)),
    "dynamic shared": lambda **sizes: (DynamicRouting(4), vectors(shared=True, **sizes)),
}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def same_bits(first, second):
    return all(torch.equal(a, b) for pair in zip(first, second) for a, b in zip(*pair))


@each_form
def test_runs_and_threads_give_the_same_bits(form):
    routing, case = form(batch=35, dtype=torch.float32)
    found = []
    for threads in (1, 1, 2, 4):
        torch.set_num_threads(threads)
        found.append(run(routing, case, fused=True))
    assert all(same_bits(found[0], other) for other in found[1:])


@each_form
def test_samples_do_not_see_each_other(form):
    routing, case = form(batch=3, dtype=torch.float32)
    together = outputs(routing(case.votes(), case.activation, coupling=False))
    for b in range(3):
        votes = case.geometry(case.pose[b : b + 1], case.weight)
        alone = outputs(routing(votes, case.activation[b : b + 1], coupling=False))
        assert all(torch.equal(all_[b : b + 1], one) for all_, one in zip(together, alone))


@each_form
def test_an_empty_batch(form):
    routing, case = form(batch=0, dtype=torch.float32)
    values, gradients = run(routing, case, fused=True)
    assert values[0].shape[0] == 0
    assert all((g == 0).all() for g in gradients)


EXTREMES = {
    "zeros": lambda pose, activation: (pose * 0, activation),
    "dead": lambda pose, activation: (pose, activation * 0),
    "all zero": lambda pose, activation: (pose * 0, activation * 0),
    "large": lambda pose, activation: (pose * 1e15, activation),
    "small": lambda pose, activation: (pose * 1e-15, activation),
    "barely there": lambda pose, activation: (pose, activation * 1e-15),
    "equal": lambda pose, activation: (torch.ones_like(pose), activation),
}


@pytest.mark.parametrize("extreme", EXTREMES.values(), ids=EXTREMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@each_form
def test_finite_at_extremes(form, dtype, extreme):
    routing, case = form(dtype=dtype)
    routing = routing.to(dtype)
    case.pose, case.activation = extreme(case.pose, case.activation)
    fused, plain = (run(routing, case, fused=f) for f in (True, False))
    for kind in (0, 1):
        for found, wanted in zip(fused[kind], plain[kind]):
            assert found.dtype == wanted.dtype
            assert found.shape == wanted.shape
            assert found.isfinite().all()


@pytest.mark.parametrize("make", [dense_matrix, shared_matrix, vectors])
def test_one_child(make):
    case = make(children=1, dtype=torch.float32)
    routing = DynamicRouting() if make is vectors else EMRouting()
    assert all(t.isfinite().all() for kind in run(routing, case, fused=True) for t in kind)


def test_what_is_not_a_number_is_not_hidden():
    case = conv(dtype=torch.float32)
    case.pose[0, 0, 0, 0, 0] = float("nan")
    routed = EMRouting()(case.votes(), case.activation, coupling=False)
    assert routed.pose[0].isnan().any()
    assert routed.pose[1].isfinite().all()


def em_arguments(case, requires_grad=True):
    pose, weight, activation = (t.requires_grad_(requires_grad) for t in case.leaves())
    votes = case.geometry(pose, weight)
    beta = [torch.randn(votes.parents, dtype=pose.dtype, requires_grad=requires_grad) for _ in range(2)]
    rows = weight if weight.ndim == 4 else weight.unsqueeze(0)
    return (votes.pose.detach().requires_grad_(requires_grad), activation, rows, *beta, votes.index, None,
            [0.1, 0.2], 1.0, 1e-6)  # fmt: skip


def test_opcheck_em():
    torch.library.opcheck(em_forward, em_arguments(conv()))
    torch.library.opcheck(em_forward, em_arguments(dense_matrix(dtype=torch.float32)))
    arguments = em_arguments(conv(), requires_grad=False)
    pose, activation, logit, statistics = em_forward(*arguments)
    torch.library.opcheck(em_backward, (pose, activation, logit, statistics, *arguments))


@pytest.mark.parametrize("bias", [False, True])
def test_opcheck_dynamic(bias):
    pose, weight, _ = vectors().leaves()
    vector = torch.randn(4, 7, dtype=pose.dtype, requires_grad=True) if bias else None
    options = (False, 3, True, False, True)
    torch.library.opcheck(dynamic_forward, (pose, weight, vector, *options))
    plain = [None if t is None else t.detach() for t in (pose, weight, vector)]
    found, totals = dynamic_forward(*plain, *options)
    torch.library.opcheck(dynamic_backward, (found, totals, *plain, *options))


class Network(torch.nn.Module):
    """Both kernels, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = ConvCaps(2, 3, kernel_size=3, stride=2)
        self.classes = ClassCaps(3, 4)
        self.dense = DenseCaps(4, 16, 2, 5)

    def forward(self, pose, activation):
        return self.dense(self.classes(self.conv((pose, activation))).pose).activation


def test_compile_passes_over_the_operators():
    network = Network()
    inputs = torch.randn(2, 5, 5, 2, 16), torch.rand(2, 5, 5, 2)
    compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
    found, wanted = compiled(*inputs), network(*inputs)
    assert torch.allclose(found, wanted)
    gradients = [torch.autograd.grad(out.sum(), list(network.parameters())) for out in (found, wanted)]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(*gradients))


def nodes_of(exported):
    """Of all graphs: what runs without autocast has one of its own."""
    modules = [m for m in exported.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return [node for module in modules for node in module.graph.nodes]


def test_export_keeps_the_operators():
    exported = torch.export.export(Network().eval(), (torch.randn(2, 5, 5, 2, 16), torch.rand(2, 5, 5, 2)))
    names = {str(node.target) for node in nodes_of(exported)}
    assert {"torchcaps.em_forward.default", "torchcaps.dynamic_forward.default"} <= names


def test_export_without_custom_operators():
    network, inputs = Network().eval(), (torch.randn(2, 5, 5, 2, 16), torch.rand(2, 5, 5, 2))
    with kernels.disabled():
        exported = torch.export.export(network, inputs)
    assert not any("torchcaps" in str(node.target) for node in nodes_of(exported))
    assert torch.allclose(exported.module()(*inputs), network(*inputs), atol=1e-6)


def test_plain_where_kernels_do_not_fit():
    case = conv(dtype=torch.float32)
    votes, activation = case.votes(), case.activation
    assert EMRouting().fused(votes, activation) is not None
    assert EMRouting(covariance="full").fused(votes, activation) is None
    assert EMRouting(activation="mixing_layer").fused(votes, activation) is None
    with kernels.disabled():
        assert EMRouting().fused(votes, activation) is None


class Doubled(DenseVotes):
    """A geometry of a user's own: every vote counts twice."""

    def compute(self, poses):
        return 2 * super().compute(poses)


@pytest.mark.parametrize(("routing", "make"), [(EMRouting(), dense_matrix), (DynamicRouting(), vectors)])
def test_subclasses_of_votes_take_the_plain_form(routing, make):
    case = make(dtype=torch.float32)
    votes = Doubled(case.pose, case.weight, "matrix" if make is dense_matrix else "vector")
    assert routing.fused(votes, case.activation) is None
    plain = routing(votes, case.activation, coupling=True)
    assert torch.equal(routing(votes, case.activation).pose, plain.pose)


def test_transforms_take_the_plain_form():
    case = vectors()
    routing = DynamicRouting()

    def lengths(pose):
        return routing(case.geometry(pose, case.weight), case.activation, coupling=False).activation

    _, slope = torch.func.jvp(lengths, (case.pose,), (torch.ones_like(case.pose),))
    assert slope.isfinite().all()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(case.pose, torch.ones_like(case.pose))
        assert torch.allclose(torch.autograd.forward_ad.unpack_dual(lengths(dual)).tangent, slope)


def test_half_precision_is_routed_in_float32():
    case = conv(dtype=torch.float32)
    half = case.geometry(case.pose.bfloat16(), case.weight.bfloat16())
    assert EMRouting().fused(half, case.activation) is not None
    assert EMRouting()(half, case.activation.bfloat16()).pose.dtype == torch.float32


def test_disabling_holds_for_one_thread():
    """Two threads that enter A, B and leave A, B do not see each other, and leave nothing behind."""
    turn = threading.Barrier(2, timeout=10)
    seen = {}

    def work(name, first):
        states = [kernels.status().enabled]
        if not first:
            turn.wait()
        with kernels.disabled():
            states.append(kernels.status().enabled)
            if first:
                turn.wait()
            turn.wait()
            if not first:
                turn.wait()
        states.append(kernels.status().enabled)
        if first:
            turn.wait()
        seen[name] = states

    before = kernels.status().enabled
    threads = [threading.Thread(target=work, args=(name, name == "A")) for name in "AB"]
    for thread in threads:
        thread.start()
    with kernels.enabled():
        during = kernels.status().enabled
    for thread in threads:
        thread.join()
    assert during
    default = dispatch._default
    assert seen == {"A": [default, False, default], "B": [default, False, default]}
    assert kernels.status().enabled == before


def test_blocks_nest():
    with kernels.disabled():
        with kernels.enabled():
            assert kernels.status().enabled
        assert kernels.status().reason == "inside disabled()"
        assert not kernels.status().enabled
    assert kernels.status().enabled


def test_compiled_code_follows_disabled():
    def fits(values):
        return values + 1 if dispatch.fits(values) else values - 1

    compiled = torch.compile(fits, fullgraph=True, backend="eager")
    assert compiled(torch.zeros(1)) == 1
    with kernels.disabled():
        assert compiled(torch.zeros(1)) == -1
    assert compiled(torch.zeros(1)) == 1


@pytest.mark.parametrize(
    ("wish", "built", "says"),
    [
        ("off", True, (False, "TORCHCAPS_KERNELS=off")),
        ("ON", True, (True, "TORCHCAPS_KERNELS=on")),
        ("", True, (True, "built")),
        ("", False, (False, "no compiler")),
    ],
)
def test_environment_decides(monkeypatch, wish, built, says):
    monkeypatch.setenv("TORCHCAPS_KERNELS", wish)
    if not built:
        monkeypatch.setattr(dispatch, "native", None)
        monkeypatch.setattr(dispatch, "_missing", "no compiler")
    assert dispatch._from_environment() == says


def test_impossible_wishes_are_errors(monkeypatch):
    monkeypatch.setenv("TORCHCAPS_KERNELS", "maybe")
    with pytest.raises(ValueError, match="must be 'on' or 'off'"):
        dispatch._from_environment()
    monkeypatch.setenv("TORCHCAPS_KERNELS", "on")
    monkeypatch.setattr(dispatch, "native", None)
    with pytest.raises(ImportError, match="TORCHCAPS_KERNELS=on, but"):
        dispatch._from_environment()


def test_works_without_the_compiled_part():
    """A fresh interpreter in which the extension cannot be had routes in the plain form."""
    program = """
import sys; sys.modules["torchcaps.kernels._native"] = None
import torch; from torchcaps import kernels; from torchcaps.layers import DenseCaps
print(kernels.status()); print(DenseCaps(3, 4, 2, 5)(torch.randn(1, 3, 4)).pose.shape)
"""
    environment = {k: v for k, v in os.environ.items() if k != "TORCHCAPS_KERNELS"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, text=True, capture_output=True)
    assert "enabled=False, built=False" in run.stdout, run.stderr
    assert "torch.Size([1, 2, 5])" in run.stdout

"""What the operators do on a GPU, with tensors that have a device and no memory."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

from torchcaps import kernels
from torchcaps.kernels import dispatch, trust
from torchcaps.kernels import dynamic as kernel
from torchcaps.routing import DynamicRouting, EMRouting
from torchcaps.votes import DenseVotes


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors can be on a GPU, for which there are kernels."""
    monkeypatch.setattr(dispatch, "missing_on_gpu", "")
    monkeypatch.setattr(dispatch, "_plain_on_gpu", {})
    with FakeTensorMode():
        yield


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, device="cuda", dtype=dtype)


def matrices(dtype: torch.dtype = torch.float32) -> DenseVotes:
    return DenseVotes(empty(2, 6, 16, dtype=dtype), empty(6, 4, 4, 4, dtype=dtype), "matrix")


@pytest.mark.parametrize("name", ["em_forward", "em_backward", "dynamic_forward", "dynamic_backward"])
def test_every_operator_has_a_kernel_for_gpus(name: str) -> None:
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"torchcaps::{name}", "CUDA")


@pytest.mark.usefixtures("gpu")
def test_routings_are_fused() -> None:
    routed = EMRouting(activation="mixing").fused(matrices(), empty(2, 6))
    assert routed is not None
    assert routed.pose.shape == (2, 1, 4, 16)
    assert routed.pose.device.type == "cuda"
    votes = DenseVotes(empty(2, 6, 8), empty(6, 3, 8, 16))
    assert kernel.route(votes, None, iterations=3, accumulate=True, leaky=False, through_all=True).shape == (
        2,
        1,
        3,
        16,
    )  # type: ignore[union-attr]


@pytest.mark.usefixtures("gpu")
def test_dynamic_routing_of_a_convolution() -> None:
    index = empty(4, 27, dtype=torch.int64)
    pose, totals = kernel.dynamic_forward(
        empty(2, 108, 8), empty(27, 3, 8, 16), None, index, False, 3, True, False, True
    )
    assert pose.shape == (2, 4, 3, 16)
    assert totals.shape == (2, 3, 2 * 12 * 16 + 2 * 108 + 8)


@pytest.mark.usefixtures("gpu")
def test_the_status_names_what_does_not_fit() -> None:
    assert kernels.status().gpu == "triton"
    assert kernels.status().plain_on_gpu == ()
    double = empty(2, 6, dtype=torch.float64)
    assert EMRouting(activation="mixing").fused(matrices(torch.float64), double) is None
    votes = DenseVotes(empty(2, 5, 300), empty(5, 2, 300, 8))
    assert DynamicRouting().fused(votes, empty(2, 5)) is None
    first, second = kernels.status().plain_on_gpu
    assert "torch.float64" in first
    assert "more than 128 numbers" in second


@pytest.mark.usefixtures("gpu")
def test_gradients_have_the_shapes_of_the_inputs() -> None:
    pose, weight = empty(2, 6, 8), empty(6, 3, 8, 16)
    arguments = (pose, weight, None, None, False, 3, True, False, True)
    grads = torch.ops.torchcaps.dynamic_backward(*torch.ops.torchcaps.dynamic_forward(*arguments), *arguments)
    assert [g.shape for g in grads] == [pose.shape, weight.shape, (3, 16)]
    others = (
        empty(2, 6, 16),
        empty(2, 6),
        empty(6, 3, 4, 4),
        empty(3),
        empty(3),
        None,
        None,
        [0.1, 0.2],
        1.0,
        1e-6,
    )
    grads = torch.ops.torchcaps.em_backward(*torch.ops.torchcaps.em_forward(*others), *others)
    assert [g.shape for g in grads] == [t.shape for t in others[:5]]


def test_importing_the_library_does_not_import_triton() -> None:
    program = (
        "import sys, torchcaps, torchcaps.layers; print('torchcaps.kernels.triton.tiles' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize("difference", [0.0, 1.0])
def test_the_check_runs_once_under_torch_compile(monkeypatch: pytest.MonkeyPatch, difference: float) -> None:
    """A whole graph, with the kernel if it agrees and without if not; the CPU takes the place of a GPU."""
    checks: list[torch.device] = []

    def check(device: torch.device) -> list[trust.Comparison]:
        checks.append(device)
        return [trust.Comparison("layer", "pose", difference, 0.5)]

    monkeypatch.setattr(dispatch, "is_gpu", lambda device: True)
    monkeypatch.setattr(dispatch, "missing_on_gpu", "")
    monkeypatch.setattr(dispatch, "_plain_on_gpu", {})
    monkeypatch.setattr(trust, "is_present", lambda device: True)
    monkeypatch.setattr(trust, "_reasons", {})
    monkeypatch.setattr(trust, "_check", check)
    monkeypatch.setattr(trust, "read_report", lambda path: None)
    monkeypatch.setattr(trust, "write_report", lambda *arguments: None)
    names: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> torch.fx.GraphModule:
        names.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    torch.compiler.reset()
    routing = EMRouting(activation="mixing", iterations=1)
    pose, weight = torch.randn(2, 6, 16), torch.randn(6, 4, 4, 4)

    @torch.compile(backend=backend, fullgraph=True)
    def run(pose: Tensor, activation: Tensor) -> Tensor:
        return routing(DenseVotes(pose, weight, "matrix"), activation).pose

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(pose, torch.rand(2, 6)).shape == (2, 1, 4, 16)
    assert checks == [torch.device("cpu")]
    assert any("em_forward" in name for name in names) == (difference == 0)

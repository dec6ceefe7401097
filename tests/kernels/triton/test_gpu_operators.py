"""What the operators do on a GPU, with tensors that have a device and no memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch._subclasses import FakeTensorMode

from torchcaps import kernels
from torchcaps.kernels import dispatch
from torchcaps.routing import DynamicRouting, EMRouting
from torchcaps.votes import ConvVotes, DenseVotes


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors can be on a GPU, for which there are kernels."""
    monkeypatch.setattr(dispatch, "missing_on_gpu", "")
    monkeypatch.setattr(dispatch, "_plain_on_gpu", {})
    with FakeTensorMode():
        yield


def matrices(dtype: torch.dtype = torch.float32) -> ConvVotes:
    pose = torch.empty(2, 6, 6, 3, 16, device="cuda", dtype=dtype)
    weight = torch.empty(27, 4, 4, 4, device="cuda", dtype=dtype)
    return ConvVotes(pose, weight, "matrix", kernel_size=3, stride=2)


@pytest.mark.parametrize("name", ["em_forward", "em_backward", "dynamic_forward", "dynamic_backward"])
def test_every_operator_has_a_kernel_for_gpus(name: str) -> None:
    assert torch._C._dispatch_has_kernel_for_dispatch_key(f"torchcaps::{name}", "CUDA")


@pytest.mark.usefixtures("gpu")
def test_em_is_fused() -> None:
    votes = matrices()
    routed = EMRouting(activation="mixing").fused(votes, torch.empty(2, 108, device="cuda"))
    assert routed is not None
    assert routed.pose.shape == (2, 4, 4, 16)
    assert routed.pose.device.type == "cuda"


@pytest.mark.usefixtures("gpu")
def test_dynamic_routing_of_a_convolution_is_fused() -> None:
    pose, weight = torch.empty(2, 6, 6, 3, 8, device="cuda"), torch.empty(27, 4, 8, 16, device="cuda")
    votes = ConvVotes(pose, weight, kernel_size=3, stride=2)
    routed = DynamicRouting().fused(votes, torch.empty(2, 108, device="cuda"))
    assert routed is not None
    assert routed.pose.shape == (2, 4, 4, 16)


@pytest.mark.usefixtures("gpu")
def test_the_status_names_what_does_not_fit() -> None:
    assert kernels.status().gpu == "triton"
    assert kernels.status().plain_on_gpu == ()
    double = torch.empty(2, 108, device="cuda", dtype=torch.float64)
    assert EMRouting(activation="mixing").fused(matrices(torch.float64), double) is None
    votes = DenseVotes(torch.empty(2, 5, 300, device="cuda"), torch.empty(5, 2, 300, 8, device="cuda"))
    assert DynamicRouting().fused(votes, torch.empty(2, 5, device="cuda")) is None
    first, second = kernels.status().plain_on_gpu
    assert "torch.float64" in first
    assert "more than 128 numbers" in second


@pytest.mark.usefixtures("gpu")
def test_gradients_have_the_shapes_of_the_inputs() -> None:
    pose, weight = torch.empty(2, 6, 8, device="cuda"), torch.empty(6, 3, 8, 16, device="cuda")
    arguments = (pose, weight, None, None, False, 3, True, False, True)
    grads = torch.ops.torchcaps.dynamic_backward(*torch.ops.torchcaps.dynamic_forward(*arguments), *arguments)
    assert [g.shape for g in grads] == [pose.shape, weight.shape, (3, 16)]
    matrix, kernel = torch.empty(2, 6, 16, device="cuda"), torch.empty(6, 3, 4, 4, device="cuda")
    beta = torch.empty(3, device="cuda")
    others = (matrix, pose[:, :, 0], kernel, beta, beta, None, None, [0.1, 0.2], 1.0, 1e-6)
    grads = torch.ops.torchcaps.em_backward(*torch.ops.torchcaps.em_forward(*others), *others)
    assert [g.shape for g in grads] == [t.shape for t in others[:5]]


def test_importing_the_library_does_not_import_triton() -> None:
    program = "import sys, torchcaps, torchcaps.layers; print('triton' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"

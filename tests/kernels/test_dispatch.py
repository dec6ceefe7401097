"""Whether kernels are used: `enabled()`, `disabled()`, the environment, and a missing compiled part."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch
from torch import Tensor

from support.kernel_cases import conv
from torchcaps import kernels
from torchcaps._compiling import constant_result
from torchcaps.kernels import dispatch


def test_disabled_applies_to_one_thread() -> None:
    """Two threads enter in the order A, B and leave in the order A, B, without an effect on each other."""
    turn = threading.Barrier(2, timeout=10)
    history: dict[str, list[bool]] = {}

    def work(name: str, first: bool) -> None:
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
        history[name] = states

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
    assert history == {"A": [default, False, default], "B": [default, False, default]}
    assert kernels.status().enabled == before


def test_blocks_can_be_nested() -> None:
    with kernels.disabled():
        with kernels.enabled():
            assert kernels.status().enabled
        assert kernels.status().reason == "inside disabled()"
        assert not kernels.status().enabled
    assert kernels.status().enabled


def test_compiled_code_follows_disabled() -> None:
    def fits(values: Tensor) -> Tensor:
        return values + 1 if dispatch.fits(values) else values - 1

    compiled = torch.compile(fits, fullgraph=True, backend="eager")
    assert compiled(torch.zeros(1)) == 1
    with kernels.disabled():
        assert compiled(torch.zeros(1)) == -1
    assert compiled(torch.zeros(1)) == 1


@pytest.mark.parametrize(
    ("setting", "built", "expected"),
    [
        ("off", True, (False, "TORCHCAPS_KERNELS=off")),
        ("ON", True, (True, "TORCHCAPS_KERNELS=on")),
        ("", True, (True, "built")),
        ("", False, (False, "no compiler")),
    ],
)
def test_environment_variable(
    monkeypatch: pytest.MonkeyPatch, setting: str, built: bool, expected: tuple[bool, str]
) -> None:
    monkeypatch.setenv("TORCHCAPS_KERNELS", setting)
    if not built:
        monkeypatch.setattr(dispatch, "native", None)
        monkeypatch.setattr(dispatch, "_missing", "no compiler")
    assert dispatch._from_environment() == expected


def test_wrong_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_KERNELS", "maybe")
    with pytest.raises(ValueError, match="must be 'on' or 'off'"):
        dispatch._from_environment()
    monkeypatch.setenv("TORCHCAPS_KERNELS", "on")
    monkeypatch.setattr(dispatch, "native", None)
    with pytest.raises(ImportError, match="TORCHCAPS_KERNELS=on, but"):
        dispatch._from_environment()


def test_works_without_the_compiled_part() -> None:
    """A new interpreter without the extension uses the plain form."""
    program = """
import sys; sys.modules["torchcaps.kernels._native"] = None
import torch; from torchcaps import kernels; from torchcaps.layers import DenseCaps
print(kernels.status()); print(DenseCaps(3, 4, 2, 5)(torch.randn(1, 3, 4)).pose.shape)
"""
    environment = {k: v for k, v in os.environ.items() if k != "TORCHCAPS_KERNELS"}
    result = subprocess.run([sys.executable, "-c", program], env=environment, text=True, capture_output=True)
    assert "enabled=False, built=False" in result.stdout, result.stderr
    assert "torch.Size([1, 2, 5])" in result.stdout


def test_operators_without_the_compiled_part(monkeypatch: pytest.MonkeyPatch) -> None:
    case = conv(dtype=torch.float32)
    votes = case.votes()
    monkeypatch.setattr(dispatch, "native", None)
    monkeypatch.setattr(dispatch, "_missing", "no compiler")
    with pytest.raises(ImportError, match="fused kernels cannot be used: no compiler"):
        torch.ops.torchcaps.em_forward(
            votes.pose, case.activation, votes.weight, None, None, votes.index, None, [0.1], 1.0, 1e-6
        )


def test_importing_the_kernels_does_not_import_the_compiler() -> None:
    """`torch._dynamo` takes as long to import as torch itself."""
    code = "import sys, torchcaps; torchcaps.DenseCaps; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_constant_result_is_marked_as_by_torch() -> None:
    def ours() -> None: ...

    def theirs() -> None: ...

    assert vars(constant_result(ours)) == vars(torch.compiler.assume_constant_result(theirs))

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from torchcaps import doctor
from torchcaps.kernels.trust import Comparison

Run = Callable[..., None]

PROGRAM = """
import sys, importlib.util
sys.modules['triton'] = None          # an import of it fails
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == 'triton' else find(name, *rest)
import torch
from torchcaps import Capsules, DenseCaps, doctor, kernels
torch.manual_seed(0)
layer = DenseCaps(6, 16, 3, 16, pose='matrix', routing='em')
out = layer(Capsules(torch.randn(2, 6, 16), torch.rand(2, 6)))
print(kernels.status().built, out.pose.double().sum().item(), doctor.extras()['tri' + 'ton'])
"""


def test_the_table_names_versions_kernels_data_and_extras(
    run: Run, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHCAPS_OFFLINE", "1")
    monkeypatch.setattr(doctor, "EXTRAS", {"timm": ("backbones", "no_such_module")})
    run("doctor")
    out = capsys.readouterr().out
    assert f"| versions | torch | {torch.__version__.split('+')[0]}" in out
    assert "| environment | TORCHCAPS_OFFLINE | 1 |" in out
    assert 'missing (backbones): pip install "torchcaps[timm]"' in out
    assert "| self-test | matrix_capsnet_small | plain and fused agree" in out
    assert all(line.startswith("|") and line.endswith("|") for line in out.splitlines())


def test_json_and_a_kernel_that_differs(
    run: Run, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Comparison("EM, conv", "pose", 1e-3, 1e-5), Comparison("EM, dense", "pose", 5e-6, 1e-5)]
    monkeypatch.setattr("torchcaps.routing.self_check.check", lambda device, everything: rows)
    monkeypatch.setattr(doctor, "gpu_check", lambda: doctor.check_device(torch.device("cuda", 0)))
    monkeypatch.setattr(doctor, "PARTS", {"versions": doctor.versions})
    run("doctor", "--kernels", "--json", code=1)
    found = json.loads(capsys.readouterr().out)["kernels on GPUs"]
    assert found["cuda:0, EM, dense"] == "agrees (50 % of the tolerance)"
    assert "differs by 1.0e-03 (1.0e-05 allowed)" in found["cuda:0, EM, conv"]


def test_without_a_gpu_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert doctor.gpu_check() == {"GPU": "not found, nothing was compared"}


def test_without_triton_nothing_changes() -> None:
    """A process in which triton is hidden: the CPU is fused as before, and the doctor names the extra."""
    shown = PROGRAM.replace("'triton'", "'no_such_module'")
    results = []
    for program in (PROGRAM, shown):
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results.append(done.stdout.strip().split(" ", 2))
    (built, total, extra), (same, expected, _) = results
    assert (built, total) == (same, expected)
    assert extra.startswith("missing")


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_SERVE_TOKEN", "secret")
    assert doctor.environment()["TORCHCAPS_SERVE_TOKEN"] == "(hidden)"
    assert "secret" not in str(doctor.environment())


def test_every_extra_of_the_package_is_looked_for() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    declared = set(re.findall(r"^(\w+) = \[", table, flags=re.MULTILINE))
    assert set(doctor.EXTRAS) == declared - {"all", "dev", "docs"}

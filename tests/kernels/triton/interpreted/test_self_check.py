"""The check of the kernels on first use: the CPU takes the place of a GPU, with interpreted kernels."""

from __future__ import annotations

import importlib.util
import json
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from support.kernel_cases import operator
from torchcaps import kernels
from torchcaps.kernels import dispatch, trust
from torchcaps.kernels.triton import em as triton_em
from torchcaps.kernels.triton import em_forward
from torchcaps.routing import EMRouting, self_check
from torchcaps.votes import DenseVotes

CPU = torch.device("cpu")
CONV = "EM, conv, mixing"
SMALL = ("EM, dense, one iteration", "dynamic, dense, last")

# Each replaces one line of em_forward.py; no change reads outside of a tensor.
MUTATIONS = {
    "a wrong offset": ("(place % rows)[:, None]", "((place + 1) % rows)[:, None]"),
    "a missing mask": ('other=float("-inf"))\n            logit', "other=0.0)\n            logit"),
    "a softmax over the wrong parents": (
        "range(0, tl.max(count, axis=0))",
        "range(0, tl.minimum(tl.max(count, axis=0), 1))",
    ),
}  # fmt: skip


def mutated(tmp_path: Path, before: str, after: str) -> ModuleType:
    """The kernels of `em_forward.py` with one change."""
    source = Path(em_forward.__file__).read_text(encoding="utf-8")
    assert source.count(before) == 1
    path = tmp_path / "mutated.py"
    path.write_text(source.replace(before, after), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mutated", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Take the CPU for a GPU that was never checked; returns the cache folder."""
    few = {name: self_check.layers()[name] for name in SMALL}
    monkeypatch.setattr(self_check, "layers", lambda everything=True: few)
    monkeypatch.setattr(dispatch, "is_gpu", lambda device: True)
    monkeypatch.setattr(dispatch, "missing_on_gpu", "")
    monkeypatch.setattr(dispatch, "_plain_on_gpu", {})
    monkeypatch.setattr(trust, "is_present", lambda device: True)
    monkeypatch.setattr(trust, "_reasons", {})
    monkeypatch.setenv("TORCHCAPS_CACHE", str(tmp_path))
    return tmp_path


def is_fused() -> bool:
    votes = DenseVotes(torch.randn(1, 2, 16), torch.randn(2, 2, 4, 4), "matrix")
    return EMRouting(iterations=1).fused(votes, torch.rand(1, 2)) is not None


def report(cache: Path) -> dict[str, Any]:
    (file,) = (cache / "self-check").iterdir()
    return json.loads(file.read_text(encoding="utf-8"))


def test_kernels_that_agree_are_used_and_checked_once(gpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = torch.get_rng_state()
        assert trust.distrust(CPU) == ""
        assert torch.equal(torch.get_rng_state(), before)
        assert is_fused()
    found = report(gpu)
    assert found["agrees"]
    assert {row["case"] for row in found["comparisons"]} == set(SMALL)
    assert {"pose", "gradient of weight", "gradient of beta_a"} <= {r["tensor"] for r in found["comparisons"]}
    # Another process with the same versions reads the file.
    monkeypatch.setattr(trust, "_reasons", {})
    monkeypatch.setattr(trust, "_check", lambda device: pytest.fail("checked twice"))
    assert is_fused()


def test_a_wrong_kernel_is_not_used(gpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = triton_em.em_backward

    def wrong(*arguments: Any) -> Any:
        grad_pose, *others = right(*arguments)
        return grad_pose * 1.01, *others

    monkeypatch.setattr("torchcaps.kernels.em.em_forward", operator(triton_em.em_forward, wrong))
    with pytest.warns(RuntimeWarning, match="gradient of pose differs by 1.0e-02.*self-check"):
        assert not is_fused()
    found = report(gpu)
    assert not found["agrees"]
    assert {row["tensor"] for row in found["comparisons"] if not row["agrees"]} == {"gradient of pose"}
    assert found["torch"] == torch.__version__
    (reason,) = kernels.status().plain_on_gpu
    assert "differ from the plain form" in reason
    # The next process warns again, from the file.
    monkeypatch.setattr(trust, "_reasons", {})
    monkeypatch.setattr(trust, "_check", lambda device: pytest.fail("checked twice"))
    with pytest.warns(RuntimeWarning, match="gradient of pose"):
        assert not is_fused()


def test_a_kernel_that_fails_is_not_used(gpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Any:
        raise RuntimeError("PTX was not accepted")

    monkeypatch.setattr("torchcaps.kernels.em.em_forward", broken)
    with pytest.warns(RuntimeWarning, match="PTX was not accepted"):
        assert not is_fused()
    assert not report(gpu)["agrees"]


def test_a_cache_that_cannot_be_written_is_no_error(gpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gpu / "file").write_text("")
    monkeypatch.setenv("TORCHCAPS_CACHE", str(gpu / "file"))
    monkeypatch.setattr(trust, "_check", lambda device: [trust.Comparison("case", "pose", 0.0, 1.0)])
    assert trust.distrust(CPU) == ""


@pytest.mark.slow
def test_the_layer_of_the_mutations_agrees() -> None:
    assert all(each.agrees for each in self_check.compare(CONV, self_check.layers()[CONV], CPU))


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutations_are_found(mutation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_em, "forward_kernels", mutated(tmp_path, *MUTATIONS[mutation]))
    found = self_check.compare(CONV, self_check.layers()[CONV], CPU)
    assert not all(each.agrees for each in found)


@pytest.mark.slow
def test_all_layers_of_the_check_agree() -> None:
    wrong = [str(each) for each in self_check.check(CPU, everything=True) if not each.agrees]
    assert not wrong

"""`make torture` finds faults that are put in on purpose; the attack itself is not part of the suite."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from torchcaps import Capsules, DenseCaps
from torchcaps.capsules import squash
from torchcaps.routing import DynamicRouting, RoutingOutput, list_routings, uniform
from torture import kills, numeric, parsers, report
from torture.cases import OPTIONS, SAMPLES, Draw, case_names, draw


def first_case(routing: str, precision: str, fused: bool = False) -> Draw:
    """The first draw of this routing and precision in which both forms are compared."""
    for number in range(2000):
        case = draw(f"{routing}:{number}")
        ordinary = numeric.within(case, numeric.ACCURATE_EM)
        if case.precision == precision and ordinary:
            poses = case.capsules.pose.flatten(1).abs().amax(1)
            if poses.all() and (not fused or numeric.has_fused(case)):
                return case
    raise AssertionError("no such draw")


def test_a_name_repeats_its_case() -> None:
    first, second = draw("em:17"), draw("em:17")
    assert str(first) == str(second)
    assert torch.equal(first.capsules.pose, second.capsules.pose)
    assert all(map(torch.equal, first.layer.parameters(), second.layer.parameters()))


def test_options_are_of_registered_routings() -> None:
    assert set(OPTIONS) <= set(list_routings())


@pytest.mark.parametrize("name", list(islice(case_names(0), 10)))
def test_the_library_passes_a_few_cases(name: str) -> None:
    found, words = numeric.run_case(name)
    assert not [name for name in found if "cases" not in name and "outside" not in name], words


def test_lost_digits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = first_case("uniform", "float32")
    assert not [name for name in numeric.judge(case) if name.startswith("beyond")]

    def rough(vectors: torch.Tensor, kind: str) -> torch.Tensor:
        exact = squash(vectors, kind)
        return exact if vectors.dtype == torch.float64 else exact * 1.001

    monkeypatch.setattr(uniform, "squash", rough)
    assert numeric.judge(case)["beyond float32 plain pose"] == SAMPLES


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_kernel_that_differs_is_found(monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    case = first_case("dynamic", precision, fused=True)
    assert numeric.judge(case)["fused cases"] == SAMPLES
    fused = DynamicRouting.fused

    def wrong(self: DynamicRouting, *arguments: Any) -> RoutingOutput | None:
        output = fused(self, *arguments)
        return None if output is None else output._replace(pose=output.pose * 1.001)

    monkeypatch.setattr(DynamicRouting, "fused", wrong)
    assert numeric.judge(case)[f"beyond {precision} fused pose"] == SAMPLES


def test_the_rounding_of_a_mean_belongs_to_the_sensitivity() -> None:
    """A vote of 0 is 1 / eps of σ from each mean, and rounding decides whose it is: no error of a kernel."""
    torch.manual_seed(0)
    layer = DenseCaps(4, 16, 3, 16, pose="matrix", routing="em").double()
    pose = torch.zeros(SAMPLES, 4, 16, dtype=torch.float64)
    pose[:, 0] = 2e14 * torch.randn(SAMPLES, 16)
    activation = torch.zeros(SAMPLES, 4, dtype=torch.float64)
    activation[:, 0] = 1
    case = Draw("made up", "float64", layer, Capsules(pose, activation), (14.3, 14.3), {"routing": "em"})
    sensitivity = numeric.Reference(case).sensitivity(8)
    assert (sensitivity["gradient"] > 1e-6).float().mean() > 0.5


def test_nan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = first_case("uniform", "float32")
    monkeypatch.setattr(uniform, "squash", lambda vectors, kind: squash(vectors, kind) / 0 * 0)
    found = numeric.judge(case)
    assert found["nonfinite float64"] == found["nonfinite float32 inside plain"] == SAMPLES


def test_an_exception_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numeric, "draw", lambda name: 1 / 0)
    found, words = numeric.run_case("em:3")
    assert found == {"exceptions": SAMPLES}
    assert "ZeroDivisionError" in words


@pytest.mark.parametrize("name", ["idx", "norb", "cifar", "recipes", "states"])
def test_good_files_are_read_and_damaged_ones_refused(name: str, tmp_path: Path) -> None:
    target = parsers.TARGETS[name]()
    for file, content in target.files.items():
        (tmp_path / file).write_bytes(content)
        target.read(tmp_path / file)
    assert [parsers.parse_one(name, target, number, tmp_path)[0] for number in range(5)] == [""] * 5


def test_a_foreign_error_is_found(tmp_path: Path) -> None:
    def read(path: Path) -> object:
        return json.loads(path.read_text(encoding="latin-1"))

    target = parsers.Target(read, {"a.json": b'{"a": 1}'})
    faults = [parsers.parse_one("idx", target, number, tmp_path)[0] for number in range(20)]
    assert any("JSONDecodeError" in fault for fault in faults)


def test_another_bit_of_a_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {"whole": torch.zeros(3), "same": torch.zeros(3), "other": torch.tensor([0, 0, 1e-38])}
    monkeypatch.setattr(kills, "weights_of", lambda folder, file: {"weight": tensors[folder.name]})
    monkeypatch.setattr(kills, "records_of", lambda folder: [])
    assert kills.faults(Path("whole"), Path("same")) == []
    assert "last: weight" in kills.faults(Path("whole"), Path("other"))


def test_the_page_keeps_rows_of_other_parts(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}{report.END}after\n")
    first = report.Part("numeric", 1, "8", 2.0, Counter({"beyond float32 plain pose": 3}), "abc")
    second = report.Part("kills", 1, "5 kills", 2.0, Counter(kills=5), "abc")
    report.record([first], page)
    report.record([second], page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "| numeric | 8 | 2 | 0 |" in text
    assert "| kills | 5 kills |" in text
    assert first.failures == 3
    assert second.failures == 0

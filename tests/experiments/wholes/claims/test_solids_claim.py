"""The claim about solids: a tiny form, and how it judges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.wholes.claims import solids
from torchcaps.experiments.wholes.claims.networks import CNNS, LABELS
from torchcaps.experiments.wholes.solids.networks import QUICK, SolidForm, SolidNetworks

TINY = SolidForm(
    channels=4,
    part_scenes=40,
    part_steps=3,
    reader_steps=3,
    wholes=16,
    cnn_steps=2,
    pose_steps=2,
    validation=8,
    test=24,
    cnns=("dense", "resnet_pretrained"),
)


def test_tiny_form_and_verdict_from_the_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_CACHE", str(tmp_path / "cache"))
    claim = replace(find_claim("solids"), run=lambda study: solids.run(study, TINY))
    result = reproduce(claim, tmp_path / "run", quick=True)
    assert result["status"] == "ended"
    holds, sentence = solids.judge(result["numbers"])
    (verdict,) = result["verdicts"]
    assert (verdict["holds"], verdict["sentence"]) == (holds, sentence)
    # All steps are stored: a second run computes nothing, and gives the same.
    lines: list[str] = []
    again = reproduce(claim, tmp_path / "run", quick=True, log=lines.append)
    assert again["numbers"] == result["numbers"]
    assert [line for line in lines if not line.startswith("data:")] == []


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("solids"), tmp_path, quick=True)
    assert result["status"] == "ended"


def test_solids_needs_half_the_error_of_the_best_cnn() -> None:
    good = {"capsules.familiar": 3.0, "capsules.novel": 5.0, "ceiling.novel": 5.0, "mlp.novel": 1.0}
    good |= {"dense.familiar": 3.0, "dense.novel": 60.0, "pooled.familiar": 2.0, "pooled.novel": 20.0}
    holds, sentence = solids.judge(good)
    assert holds is True
    assert LABELS["pooled"] in sentence
    # Half the error of the CNN, but still many errors.
    assert solids.judge({**good, "capsules.novel": 5.5})[0] is None
    assert solids.judge({**good, "capsules.novel": 5.0, "pooled.novel": 9.0})[0] is None
    assert solids.judge({**good, "capsules.novel": 20.0})[0] is False
    weak = solids.judge({**good, "pooled.familiar": 4.5})
    assert weak[0] is None
    assert "not reliable" in weak[1]


def test_no_test_azimuth_is_a_trained_one(tmp_path: Path) -> None:
    networks = SolidNetworks(Study(tmp_path, quick=True), TINY)
    assert networks.draw(50, "train").view[:, 0].abs().max() <= 40
    novel = networks.draw(50, "test", solids.CONDITIONS["novel"]).view[:, 0]
    assert novel.min() >= 40
    assert novel.max() <= 320
    assert set(QUICK.cnns) <= set(CNNS)

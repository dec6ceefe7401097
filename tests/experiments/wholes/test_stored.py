from pathlib import Path

import pytest
import torch
from torch import nn

from torchcaps.experiments.framework.study import Study, StudyStopped
from torchcaps.experiments.wholes import fitting
from torchcaps.experiments.wholes.stored import Trained, stored


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_CACHE", str(tmp_path / "cache"))


def make(study: Study, trained: list, *, settings=None, code=(fitting,)) -> Trained:
    def train(model: nn.Linear) -> dict:
        trained.append(1)
        with torch.no_grad():
            model.weight.add_(1)
        return {"accuracy": 50.0}

    return stored(
        study,
        "a line",
        build=lambda: nn.Linear(1, 1),
        train=train,
        settings=settings or {"steps": 3},
        code=code,
    )


def test_is_trained_once_for_all_studies(tmp_path: Path) -> None:
    trained: list[int] = []
    first = make(Study(tmp_path / "one", quick=True), trained)
    second = make(Study(tmp_path / "other", quick=False), trained)
    assert len(trained) == 1
    assert torch.equal(first.model.weight, second.model.weight)
    assert second.facts == {"accuracy": 50.0}
    assert first.key == second.key


def test_a_checkout_may_hold_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    first = make(Study(tmp_path / "one", quick=True), trained)
    kept = tmp_path / "checkout" / "claims" / "networks"
    kept.mkdir(parents=True)
    for file in (tmp_path / "cache" / "networks").glob("*.safetensors"):
        file.rename(kept / file.name)
    monkeypatch.chdir(tmp_path / "checkout")
    second = make(Study(tmp_path / "other", quick=True), trained)
    assert len(trained) == 1
    assert torch.equal(first.model.weight, second.model.weight)


def test_other_settings_seeds_and_code_train_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[int] = []
    make(Study(tmp_path / "a", quick=True), trained)
    make(Study(tmp_path / "a", quick=True), trained, settings={"steps": 4})
    make(Study(tmp_path / "b", quick=True, seed=1), trained)
    changed = tmp_path / "fitting.py"
    changed.write_text("changed")
    monkeypatch.setattr(fitting, "__file__", str(changed))
    make(Study(tmp_path / "a", quick=True), trained)
    assert len(trained) == 4


def test_cached_results_depend_on_the_network(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True)
    key = make(study, []).key
    assert study.dependencies["a line"] == key


def test_stops_at_the_deadline_before_training(tmp_path: Path) -> None:
    with pytest.raises(StudyStopped, match="before training a line"):
        make(Study(tmp_path, quick=True, deadline=0.0), [])

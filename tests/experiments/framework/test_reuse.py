from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchcaps.experiments.framework.study import Study
from torchcaps.training import Recipe, default_recipe

RECIPE = default_recipe("pooled_cnn", "digits").override(
    ["training.epochs=1", "model.options.stages=[[4], [4]]", "evaluation.extra_datasets=[]", "data.limit=200"]
)


class Runs:
    """Experiments beside each other, which count how often they train."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, list[str]()

    def train(
        self, claim: str, recipe: Recipe = RECIPE, *, seed: int = 0, keep_epochs: bool = False
    ) -> Study:
        out = self.folder / f"{claim}-seeds" / f"seed-{seed}"
        study = Study(out, quick=True, seed=seed, log=self.log.append)
        study.train("net", recipe, keep_epochs=keep_epochs)
        return study

    @property
    def trained(self) -> int:
        return sum("pooled_cnn on digits" in line for line in self.log)


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_same_network_is_trained_once(runs: Runs) -> None:
    first, second = runs.train("one"), runs.train("two")
    assert runs.trained == 1
    assert first.training_result("net") == second.training_result("net")
    # A study that continues has its own copy and looks for no other.
    runs.train("two")
    assert runs.log.count(runs.log[-1]) == 1


def test_copy_is_what_training_would_give(runs: Runs, tmp_path: Path) -> None:
    runs.train("one")
    copied = runs.train("two").training_result("net")["sha256"]
    alone = Study(tmp_path / "elsewhere", quick=True)
    alone.train("net", RECIPE)
    assert alone.training_result("net")["sha256"] == copied


def test_other_networks_are_trained(runs: Runs) -> None:
    runs.train("one")
    runs.train("two", RECIPE.override(["optimizer.lr=2e-3"]))
    runs.train("three", seed=1)
    assert runs.trained == 3


def test_missing_epochs_are_trained(runs: Runs) -> None:
    runs.train("one")
    assert len(runs.train("two", keep_epochs=True).epoch_paths("net")) == 1
    runs.train("three", keep_epochs=True)
    assert runs.trained == 2


def test_run_of_another_version_is_not_taken(runs: Runs) -> None:
    path = runs.train("one").training_folder("net") / "environment.json"
    sessions = json.loads(path.read_text())
    path.write_text(json.dumps([{**each, "torchcaps": "0.0.1"} for each in sessions]))
    runs.train("two")
    assert runs.trained == 2


def test_copy_that_was_cut_off_is_made_again(runs: Runs) -> None:
    runs.train("one")
    part = runs.folder / "two-seeds" / "seed-0" / "trained" / ".net.part"
    part.mkdir(parents=True)
    (part / "result.json").write_text('{"status": "ended"}')
    runs.train("two")
    runs.train("three")
    assert runs.trained == 1
    assert not part.exists()

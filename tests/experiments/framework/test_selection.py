import json
from pathlib import Path
from typing import Any

import pytest

from torchcaps.errors import RunError
from torchcaps.experiments.framework.selection import train_best_rate, validation_error
from torchcaps.experiments.framework.study import Study
from torchcaps.models import create_model
from torchcaps.training import default_recipe


class FakeStudy(Study):
    """Writes validation errors instead of training, and test errors that must not be looked at."""

    errors: dict[float, list[float]]

    def train(self, name: str, recipe: Any, **options: Any) -> Any:
        folder = self.training_folder(name)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"validation": {"error": error}, "test": {"error": 1 - error}})
            for error in self.errors[recipe.optimizer.lr]
        ]
        (folder / "metrics.jsonl").write_text("\n".join(lines))
        return create_model("pooled_cnn", stages=((4,), (4,)))


def test_lowest_validation_error_of_all_epochs_decides(tmp_path: Path) -> None:
    study = FakeStudy(tmp_path, quick=True)
    study.errors = {1e-3: [0.3, 0.2], 3e-3: [0.5, 0.1, 0.4]}
    recipe = default_recipe("capsnet_small", "digits").override(["data.val_fraction=0.2"])
    chosen = train_best_rate(study, "network", recipe, (1e-3, 3e-3))
    assert chosen.lr == 3e-3
    assert chosen.validation == pytest.approx(10)
    assert validation_error(study, "network, lr 0.001") == pytest.approx(20)


def test_other_seeds_take_the_rate_of_seed_0(tmp_path: Path) -> None:
    recipe = default_recipe("capsnet_small", "digits").override(["data.val_fraction=0.2"])
    first = FakeStudy(tmp_path / "0", quick=True)
    first.errors = {1e-3: [0.3], 3e-3: [0.1]}
    train_best_rate(first, "network", recipe, (1e-3, 3e-3))
    study = FakeStudy(tmp_path / "1", quick=True, seed=1, first=first.numbers)
    study.errors = {1e-3: [0.0], 3e-3: [0.2]}
    assert train_best_rate(study, "network", recipe, (1e-3, 3e-3)).lr == 3e-3
    assert not study.training_folder("network, lr 0.001").exists()
    # A network that seed 0 does not know, and a rate that is not among those to try.
    assert train_best_rate(study, "another", recipe, (1e-3, 3e-3)).lr == 1e-3
    assert train_best_rate(study, "network", recipe, (1e-3,)).lr == 1e-3


def test_validation_images_are_needed(tmp_path: Path) -> None:
    study = FakeStudy(tmp_path, quick=True)
    with pytest.raises(ValueError, match="val_fraction"):
        train_best_rate(study, "network", default_recipe("capsnet_small", "digits"), (1e-3,))
    study.training_folder("other").mkdir(parents=True)
    (study.training_folder("other") / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(RunError, match="no validation errors"):
        validation_error(study, "other")

from collections.abc import Callable
from pathlib import Path

import pytest

from torchcaps.cli import main
from torchcaps.training import Recipe, train

Run = Callable[..., None]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def run() -> Run:
    """Runs a command and checks its exit code."""

    def run_command(*words: str | Path, code: int = 0) -> None:
        with pytest.raises(SystemExit) as exit_info:
            main([str(word) for word in words])
        assert (exit_info.value.code or 0) == code

    return run_command


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a tiny model on the embedded digits."""
    folder = tmp_path_factory.mktemp("trained")
    recipe = Recipe.from_table(
        {
            "model": {"name": "shared_capsnet", "options": {"stages": [[8], [16]]}},
            "data": {"name": "digits", "options": {"size": 16}},
            "training": {"epochs": 1},
        }
    )
    train(recipe, folder)
    return folder

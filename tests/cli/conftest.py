from pathlib import Path

import pytest

from torchcaps.training import Recipe, train


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

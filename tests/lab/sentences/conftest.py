"""Fixtures of the tests of sentences that state a fact about what is shown."""

import pytest

from torchcaps.lab.model_store import ModelStore, load_model_store


@pytest.fixture(scope="session")
def store() -> ModelStore:
    """All networks of the lab, trained."""
    return load_model_store()

from collections.abc import Iterator
from typing import Any

import pytest
from lab_models import untrained_shelf
from starlette.testclient import TestClient

from torchcaps.lab.server import create_app
from torchcaps.lab.weights import Shelf


@pytest.fixture(scope="session")
def shelf() -> Shelf:
    """All networks of the lab, untrained."""
    return untrained_shelf()


@pytest.fixture(scope="session")
def client(shelf: Shelf) -> Iterator[TestClient]:
    """A client of a lab whose networks are untrained."""
    with TestClient(create_app(shelf)) as client:
        yield client


@pytest.fixture(scope="session")
def digits(client: TestClient) -> list[dict[str, Any]]:
    """The examples."""
    return client.get("/api/examples").json()["digits"]


@pytest.fixture(scope="session")
def seven(digits: list[dict[str, Any]]) -> list[list[float]]:
    """An example of a seven."""
    return next(digit["image"] for digit in digits if digit["label"] == 7)

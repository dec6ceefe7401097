from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from support.lab_models import untrained_store
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.server import create_app


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that open the page: `make test` leaves them to `make test-page`."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def store() -> ModelStore:
    """All networks of the lab, untrained."""
    return untrained_store()


@pytest.fixture(scope="session")
def client(store: ModelStore) -> Iterator[TestClient]:
    """A client of a lab whose networks are untrained."""
    with TestClient(create_app(store)) as client:
        yield client


@pytest.fixture(scope="session")
def post(client: TestClient) -> Callable[..., dict[str, Any]]:
    """`post(endpoint, **body)` returns the response's JSON."""

    def post(endpoint: str, **body: Any) -> dict[str, Any]:
        response = client.post(f"/api/{endpoint}", json=body)
        assert response.status_code == 200, response.text
        return response.json()

    return post


@pytest.fixture(scope="session")
def digits(client: TestClient) -> list[dict[str, Any]]:
    """The example digits."""
    return client.get("/api/examples").json()["digits"]


@pytest.fixture(scope="session")
def seven(digits: list[dict[str, Any]]) -> list[list[float]]:
    """An image of a seven."""
    return next(digit["image"] for digit in digits if digit["label"] == 7)

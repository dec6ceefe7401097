from collections.abc import Iterator

import pytest
import torch
from starlette.testclient import TestClient

from torchcaps.models.weights import ModelCard
from torchcaps.serve.server import create_app
from torchcaps.training.prediction import Predictor

CARD = ModelCard("pooled_cnn", {}, 3, 1, (16, 16), ("cat", "dog", "cow"), facts={"data": "animals"})


@pytest.fixture(scope="session")
def predictor() -> Predictor:
    """An untrained network for gray images of 16×16 pixels."""
    torch.manual_seed(0)
    return Predictor(CARD.build(), CARD)


@pytest.fixture(scope="session")
def client(predictor: Predictor) -> Iterator[TestClient]:
    """A client of a server for that network."""
    with TestClient(create_app(predictor, sha256="abc")) as client:
        yield client

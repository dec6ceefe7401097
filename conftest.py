import pytest
import torch


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _torch_in_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["torch"] = torch

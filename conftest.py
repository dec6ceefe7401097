from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import torch

# The examples in these modules cannot be collected without the optional triton.
collect_ignore_glob = [] if find_spec("triton") else ["src/torchcaps/kernels/triton/*"]


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _torch_in_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace["torch"] = torch


@pytest.fixture(autouse=True)
def _registries_restored() -> Iterator[None]:
    """Remove what a test or an example registers, so that others see the names of the library alone."""
    from torchcaps.data import list_datasets
    from torchcaps.data.registry import DATASETS
    from torchcaps.models.registry import MODELS
    from torchcaps.poses import POSE_SPACES
    from torchcaps.routing import ROUTINGS

    list_datasets()  # imports all data sets, so that they are in the copy
    registries = (DATASETS, MODELS, POSE_SPACES, ROUTINGS)
    entries = [dict(registry._entries) for registry in registries]
    yield
    for registry, before in zip(registries, entries):
        registry._entries = before

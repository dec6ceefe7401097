from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def test_overlap_returns_the_two_best_classes_of_each_network(
    post: Callable[..., dict[str, Any]], seven: list[list[float]]
) -> None:
    response = post("overlap", image=np.pad(np.array(seven), 4).tolist())
    capsules, cnn = response["capsules"], response["cnn"]
    assert capsules["best"] == np.argsort(capsules["lengths"])[::-1][:2].tolist()
    assert np.shape(capsules["reconstructions"]) == (2, 36, 36)
    assert cnn["best"] == np.argsort(cnn["scores"])[::-1][:2].tolist()
    assert sum(cnn["scores"]) == pytest.approx(1, abs=1e-3)

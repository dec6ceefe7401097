from collections.abc import Callable
from typing import Any

import numpy as np

Image = list[list[float]]
Post = Callable[..., dict[str, Any]]


def test_the_change_is_at_most_epsilon(post: Post, seven: Image) -> None:
    response = post("attack", image=seven, epsilon=0.1)
    for network in response.values():
        change = np.array(network["image"]) - np.array(seven)
        assert np.abs(change).max() <= 0.1 + 3e-3
        np.testing.assert_allclose(change, 0.1 * np.array(network["perturbation"]), atol=3e-3)
        assert network["after"] == int(np.argmax(network["scores"]))


def test_epsilon_0_changes_nothing(post: Post, seven: Image) -> None:
    for network in post("attack", image=seven, epsilon=0).values():
        assert network["before"] == network["after"]
        assert np.abs(network["perturbation"]).max() == 0

from collections.abc import Callable
from typing import Any

import pytest


@pytest.mark.parametrize("routing", ["dynamic", "kmeans", "em"])
def test_votes_returns_every_iteration(
    post: Callable[..., dict[str, Any]], seven: list[list[float]], routing: str
) -> None:
    response = post("votes", image=seven, routing=routing, iterations=4)
    assert len(response["iterations"]) == 4
    assert 0 < len(response["points"]) <= 600
    classes = {point["class"] for point in response["points"]}
    assert response["best"] in classes
    assert len(classes) == 3
    first, second = response["explained_variance"]
    assert 0 <= second <= first <= 1
    for step in response["iterations"]:
        assert len(step["weight"]) == len(response["points"])
        assert {mean["class"] for mean in step["means"]} == classes
        assert len(step["activation"]) == 10
        counts = step["histogram"]["counts"]
        assert {int(name) for name in counts} == classes
        total = sum(sum(count) for count in counts.values())
        assert total == pytest.approx(sum(step["weight"]), rel=1e-2), "every vote is counted"
    assert all(weight == pytest.approx(0.1) for weight in response["iterations"][0]["weight"])

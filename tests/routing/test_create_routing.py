from typing import Any

import pytest
import torch

from torchcaps import create_routing, list_routings
from torchcaps.routing import routing_options
from torchcaps.votes import SharedVotes

VOTES = SharedVotes(torch.ones(2, 5, 4), torch.ones(3, 4, 4))
iterative = [name for name in list_routings() if "iterations" in routing_options(name)]


@pytest.mark.parametrize("name", iterative)
@pytest.mark.parametrize("iterations", [0, -1, 1.5, True, "3", None])
def test_iterations_are_a_whole_number(name: str, iterations: Any) -> None:
    with pytest.raises(ValueError, match="iterations must be a whole number of at least 1"):
        create_routing(name, iterations=iterations)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("em", {"activation": "softmax"}),
        ("em", {"covariance": "ful"}),
        ("em", {"inverse_temperature": 0}),
        ("em", {"inverse_temperature": float("inf")}),
        ("em", {"decay": 1.0}),
        ("em", {"decay": "slow"}),
        ("em", {"epsilon": 0}),
        ("em", {"sigma": -1, "covariance": "fixed"}),
        ("em", {"beta_u": "x"}),
        ("em", {"beta_a": None}),
        ("em", {"beta_a": float("nan")}),
        ("em", {"normalize_mass": "no"}),
        ("dynamic", {"update": "x"}),
        ("dynamic", {"gradient": "first"}),
        ("dynamic", {"squash": "tan"}),
        ("dynamic", {"leaky": "no"}),
        ("dynamic", {"bias": 1}),
        ("heinsen", {"bias": 1, "pose_dim": 4}),
        ("heinsen", {"epsilon": 0}),
        ("heinsen", {"rows": 6}),
        ("heinsen", {"rows": (0,)}),
        ("kmeans", {"metric": "cosin"}),
        ("kmeans", {"temperature": -1}),
        ("kmeans", {"temperature": "hot"}),
        ("self_routing", {"in_dim": 0}),
        ("self_routing", {"rows": "6"}),
        ("uniform", {"squash": None}),
        ("uniform", {"parents": 0}),
    ],
)
def test_a_bad_option_is_named(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^(unknown )?{next(iter(options))}"):
        create_routing(name, **options)


def test_a_bias_needs_the_pose_dim() -> None:
    with pytest.raises(ValueError, match="pose_dim"):
        create_routing("dynamic", bias=True)


@pytest.mark.parametrize("name", [None, [], 3, "dynamc"])
def test_unknown_names_list_the_known(name: Any) -> None:
    with pytest.raises(ValueError, match=f"unknown routing.*Known: {', '.join(list_routings())}"):
        create_routing(name)


def test_unknown_options_suggest_the_nearest() -> None:
    with pytest.raises(ValueError, match="no option 'iteration': did you mean 'iterations'"):
        create_routing("dynamic", iteration=3)


@pytest.mark.parametrize("name", list_routings())
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((VOTES.pose, torch.ones(2, 5)), "votes must be an instance of Votes"),
        ((VOTES, torch.ones(2, 6)), r"activation must be \[B=2, N=5\]"),
        ((VOTES, [1.0]), "activation must be a tensor"),
        ((VOTES, torch.ones(2, 5, dtype=torch.int64)), "activation must be a floating"),
        ((VOTES, torch.ones(2, 5).double()), "activation must be torch.float32"),
        ((VOTES, torch.ones(2, 5), torch.ones(2, 5, 3)), r"start must be \[B=2, P=1, I=5, J=3\]"),
        ((VOTES, torch.ones(2, 5), torch.ones(2, 1, 5, 3).double()), "start must be torch.float32"),
        ((VOTES, torch.ones(2, 5), "even"), "start must be a tensor"),
    ],
)
def test_what_a_routing_is_given_is_looked_at(name: str, arguments: tuple, says: str) -> None:
    routing = create_routing(name)
    with pytest.raises(ValueError, match=says):
        routing(*arguments)
    with pytest.raises(ValueError, match=says):
        routing.history(*arguments)


def test_a_routing_made_for_other_parents_is_refused() -> None:
    with pytest.raises(ValueError, match="parents=2, the layer has 3"):
        create_routing("em", parents=2)(VOTES, torch.ones(2, 5))


@pytest.mark.parametrize("name", list_routings())
def test_start_is_where_the_iteration_begins(name: str) -> None:
    start = torch.rand(2, 1, 5, 3).softmax(-1)
    votes = SharedVotes(torch.randn(2, 5, 4), torch.randn(3, 4, 4))
    first = create_routing(name).history(votes, torch.ones(2, 5), start)[0]
    assert first.coupling is not None
    torch.testing.assert_close(first.coupling, start)

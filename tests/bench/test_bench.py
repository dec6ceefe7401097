import pytest
import torch

from torchcaps import Capsules, kernels, list_routings
from torchcaps.bench import network_rows, routing_rows, scaling_rows
from torchcaps.bench.routings import ITERATIONS, VARIANTS, cases, work


@pytest.mark.parametrize("routing", [*list_routings(), *VARIANTS])
def test_votes_are_counted_as_the_layers_compute_them(routing: str) -> None:
    for case in cases(routing).values():
        pose = torch.zeros(1, *case.pose)
        votes = case.layer.votes(Capsules(pose, pose[..., 0]))
        assert work(routing, case)[0] > 0
        tensor = votes.tensor()
        assert tensor[..., 0].numel() == case.votes
        assert tensor.shape[-1] == case.size
        assert votes.weight.shape[-2] == case.products


def test_work_of_the_paper_layer() -> None:
    forward, _ = work("em", cases("em")["conv 14→6"])
    votes = 36 * 288 * 32
    assert forward == votes * (ITERATIONS * 2 * 4 * 16 + 16 * (5 * ITERATIONS + 5 * (ITERATIONS - 1)))


def test_rows_have_positive_numbers() -> None:
    rows = list(routing_rows(["em"], ["plain", "fused"], batch=1, budget=0.0))
    forms = {row["form"] for row in rows}
    assert forms == ({"plain", "fused"} if kernels.status().enabled else {"plain"})
    assert all(row["forward ms"] > 0 for row in rows)


def test_a_network_is_measured_in_its_own_process() -> None:
    (row,) = network_rows({"matrix_capsnet_small": [1]}, budget=0.0)
    assert row["train/s"] > 0
    assert row["peak MB"] >= 0


@pytest.mark.slow
def test_cost_grows_linearly() -> None:
    # A quadratic cost would give 4.
    assert all(row["ratio"] < 2.7 for row in scaling_rows())

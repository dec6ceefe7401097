"""Mistakes of public code: each test fails if its mistake is put in; docs/pitfalls.md explains them."""

import math
import re
from pathlib import Path

import pytest
import torch

from support.layers import children
from torchcaps import (
    Capsules,
    ClassCaps,
    ConvCaps,
    DenseCaps,
    PrimaryCaps,
    create_routing,
    length,
    margin_loss,
    reconstruction_loss,
    spread_loss,
    squash,
)
from torchcaps.capsules import SQUASHES
from torchcaps.routing import EMRouting, RoutingOutput
from torchcaps.training.metrics import MetricSums
from torchcaps.votes import ConvVotes, SharedVotes

pytestmark = pytest.mark.usefixtures("plain")
double = torch.float64
ROUTED = ["dynamic", "kmeans", "em"]
PAGE = Path(__file__).parents[1] / "docs" / "pitfalls.md"


def test_page_and_tests_list_the_same_pitfalls() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = [int(number) for number in re.findall(r"^### (\d+)\. ", text, flags=re.MULTILINE)]
    tests = [name for name in globals() if re.match(r"test_\d\d_", name)]
    assert headings == [int(name[5:7]) for name in tests]
    assert headings == list(range(1, len(headings) + 1))
    assert re.findall(r"^- \*Test\.\* `(\w+)`$", text, flags=re.MULTILINE) == tests


def identity(parents: int, size: int) -> torch.Tensor:
    """Matrices under which every child votes with its own pose."""
    return torch.eye(size, dtype=double).repeat(parents, 1, 1)


@pytest.mark.parametrize("routing", ROUTED)
def test_01_children_share_themselves_out_over_parents(routing: str) -> None:
    votes = SharedVotes(torch.randn(2, 7, 4), torch.randn(3, 4, 4))
    for routed in create_routing(routing).history(votes, torch.ones(2, 7)):
        assert routed.coupling is not None
        torch.testing.assert_close(routed.coupling.sum(3), torch.ones(2, 1, 7))


@pytest.mark.parametrize("routing", ROUTED)
def test_02_each_sample_has_logits_of_its_own(routing: str) -> None:
    layer, capsules = DenseCaps(6, 4, 3, 4, routing=routing), children((6, 4), 4)
    with torch.no_grad():
        layer.weight.mul_(5)
    together = layer(capsules, coupling=True)
    for row in range(4):
        alone = layer(Capsules(*(values[row : row + 1] for values in capsules)), coupling=True)
        torch.testing.assert_close(alone.coupling, together.coupling[row : row + 1])


def test_03_primary_pose_is_channels_at_one_pixel() -> None:
    layer = PrimaryCaps(2, 3, 8)
    features = torch.randn(1, 2, 5, 6)
    changed = features.clone()
    changed[0, :, 2, 4] += 1
    differs = (layer(features).pose != layer(changed).pose).any(-1)
    wanted = torch.zeros(1, 5, 6, 3, dtype=torch.bool)
    wanted[0, 2, 4] = True
    assert torch.equal(differs, wanted)


@pytest.mark.parametrize("kind", sorted(SQUASHES))
def test_04_zero_vector_has_a_finite_slope(kind: str) -> None:
    vectors = torch.zeros(2, 3, requires_grad=True)
    (squash(vectors, kind).sum() + length(vectors).sum() + length(squash(vectors, kind)).sum()).backward()
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()


@pytest.mark.parametrize("routing", ROUTED)
def test_05_r_iterations_are_r_weighted_sums(routing: str) -> None:
    votes = SharedVotes(torch.randn(2, 7, 4), torch.randn(3, 4, 4))
    one = create_routing(routing, iterations=1)
    trace = one.history(votes, torch.ones(2, 7))
    assert len(trace) == 1
    assert trace[0].coupling is not None
    torch.testing.assert_close(trace[0].coupling, torch.full((2, 1, 7, 3), 1 / 3))
    mean = votes.tensor().mean(2)
    wanted = squash(mean * 7 / 3) if routing == "dynamic" else mean
    torch.testing.assert_close(one(votes, torch.ones(2, 7)).pose, wanted)


def test_06_margins_look_at_lengths_as_they_are() -> None:
    lengths = torch.tensor([[0.9, 0.1, 0.1], [0.1, 0.1, 0.9]])
    assert margin_loss(lengths, torch.tensor([0, 2])).item() == 0


def test_07_reconstruction_sums_over_pixels() -> None:
    for pixels in (10, 28):
        shape = (3, 1, pixels, pixels)
        assert reconstruction_loss(torch.ones(shape), torch.zeros(shape)).item() == pytest.approx(
            0.0005 * pixels**2
        )


def test_08_em_weighs_children_by_their_activation() -> None:
    pose = torch.tensor([[[0.0, 0.0], [4.0, 8.0]]], dtype=double)
    routed = EMRouting(iterations=1).double()(
        SharedVotes(pose, identity(2, 2)), torch.tensor([[0.75, 0.25]], dtype=double)
    )
    torch.testing.assert_close(routed.pose[0, 0], torch.tensor([[1.0, 2.0]] * 2, dtype=double))


def test_09_assignment_follows_activation_times_density() -> None:
    pose = torch.randn(1, 6, 2, dtype=double)
    routing = EMRouting(2, iterations=2, inverse_temperature=1.0, decay=0).double()
    with torch.no_grad():
        routing.beta_a.copy_(torch.tensor([3.0, -2.0]))
    votes = SharedVotes(pose, torch.randn(2, 2, 2, dtype=double))
    first, second = routing.history(votes, torch.ones(1, 6, dtype=double))
    vote, mean, prior = votes.tensor()[0, 0], first.pose[0, 0], first.activation[0, 0]
    spread = (vote - mean).square().mean(0) + 1e-6
    p = torch.exp(-((vote - mean) ** 2 / spread).sum(-1) / 2) / (2 * math.pi * spread.prod(-1).sqrt())
    assert second.coupling is not None
    torch.testing.assert_close(second.coupling[0, 0], prior * p / (prior * p).sum(-1, keepdim=True))


def shares_of_each_child(votes: ConvVotes, routed: RoutingOutput) -> list[torch.Tensor]:
    assert votes.index is not None
    assert routed.coupling is not None
    return [routed.coupling[:, votes.index == child].flatten(1) for child in range(votes.total_children)]


@pytest.mark.parametrize("routing", ROUTED)
def test_10_parents_at_all_positions_compete_for_a_child(routing: str) -> None:
    layer, capsules = ConvCaps(2, 3, kernel_size=3, in_dim=4, routing=routing), children((5, 5, 2, 4))
    votes = layer.votes(capsules)
    trace = layer.routing.history(votes, capsules.activation.flatten(1))
    for number, routed in enumerate(trace):
        for child, shares in enumerate(shares_of_each_child(votes, routed)):
            torch.testing.assert_close(shares.sum(1), torch.ones(2))
            if number == 0:
                row, column = child // 2 // 5, child // 2 % 5
                above = [min(place, 4 - place) + 1 for place in (row, column)]
                parents = 3 * min(above[0], 3) * min(above[1], 3)
                assert shares.shape[1] == parents
                torch.testing.assert_close(shares, torch.full_like(shares, 1 / parents))


def test_11_one_effective_child_leaves_everything_finite() -> None:
    for covariance in ("full", "diagonal", "spherical", "fixed"):
        layer = DenseCaps(3, 4, 2, 4, routing="em", covariance=covariance)
        pose, activation = torch.randn(2, 3, 4, requires_grad=True), torch.zeros(2, 3)
        activation[:, 1] = 1
        routed = layer(Capsules(pose, activation), coupling=True)
        (routed.pose.sum() + routed.activation.sum() + routed.logits.sum()).backward()
        assert routed.logits.isfinite().all()
        assert pose.grad is not None
        assert pose.grad.isfinite().all()
        assert layer.weight.grad.isfinite().all()


def test_12_normalized_mass_is_the_same_in_layers_of_any_size() -> None:
    pose, activation = torch.randn(1, 5, 4), torch.rand(1, 5)
    weight = torch.randn(3, 4, 4)
    for normalize in (True, False):
        routing = EMRouting(normalize_mass=normalize, beta_u=1.0, inverse_temperature=0.5)
        few = routing(SharedVotes(pose, weight), activation)
        many = routing(SharedVotes(pose.repeat(1, 20, 1), weight), activation.repeat(1, 20))
        assert torch.allclose(few.logits, many.logits, rtol=1e-3) is normalize


def test_13_coordinates_go_to_the_right_hand_column() -> None:
    capsules = Capsules(torch.zeros(1, 2, 4, 1, 16), torch.ones(1, 2, 4, 1))
    votes = ClassCaps(1, 2).votes(capsules).tensor().view(2, 4, 2, 4, 4)
    wanted = torch.zeros(2, 4, 2, 4, 4)
    wanted[..., 0, 3] = torch.tensor([0.25, 0.75])[:, None, None]
    wanted[..., 1, 3] = torch.tensor([0.125, 0.375, 0.625, 0.875])[None, :, None]
    torch.testing.assert_close(votes, wanted)


def test_14_spread_loss_leaves_the_target_out() -> None:
    assert spread_loss(torch.tensor([[1.0, 0.0, 0.0]]), torch.tensor([0]), margin=0.9).item() == 0


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("grid", [(7, 7), (6, 9), (5, 8)])
def test_15_child_normalizer_is_right_for_every_stride(stride: int, grid: tuple[int, int]) -> None:
    """Where children vote from is marked in their poses, so that the index itself is not trusted."""
    height, width = grid
    place = torch.arange(height * width, dtype=double).view(1, height, width, 1, 1) + 1
    votes = ConvVotes(place, torch.ones(9, 2, 1, 1, dtype=double), kernel_size=3, stride=stride)
    child = votes.tensor()[0, :, :, 0, 0].long() - 1
    rows = [
        (y * stride, x * stride)
        for y in range((height - 3) // stride + 1)
        for x in range((width - 3) // stride + 1)
    ]
    for position, (top, left) in enumerate(rows):
        field = [(top + y) * width + left + x for y in range(3) for x in range(3)]
        assert child[position].tolist() == field
    logits = torch.randn(1, len(rows), 9, 2, dtype=double)
    ours = votes.softmax(logits)[0]
    for number in range(height * width):
        mine = child == number
        if mine.any():
            torch.testing.assert_close(ours[mine].flatten(), logits[0][mine].flatten().softmax(0))


def test_16_first_votes_leave_room_to_learn() -> None:
    """From N(0, 1) all classes begin at length 1, where the squash has no slope left."""
    layer = DenseCaps(1152, 8, 10, 16)
    assert float(layer(squash(torch.randn(4, 1152, 8))).activation.detach().max()) < 0.95
    assert layer.weight.std().item() == pytest.approx(0.1, rel=0.05)
    matrices = ConvCaps(8, 16, kernel_size=3).weight
    torch.testing.assert_close(matrices.mean((0, 1)), torch.eye(4), atol=0.05, rtol=0)
    assert (matrices - torch.eye(4)).std().item() == pytest.approx(0.1, rel=0.05)


def test_17_two_digits_count_only_if_both_are_right() -> None:
    scores = torch.tensor([[0.9, 0.8, 0.1], [0.9, 0.1, 0.8], [0.1, 0.9, 0.8], [0.8, 0.9, 0.1]])
    both = MetricSums(("0", "1", "2"))
    both.add(scores, torch.tensor([[0, 1], [0, 1], [0, 1], [0, 1]]))
    assert both.evaluation().accuracy == 0.5

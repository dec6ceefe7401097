import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support import references
from support.layers import FEW
from torchcaps.votes import ClassVotes, ConvVotes, DenseVotes, SharedVotes

double = torch.float64


@st.composite
def fields(draw: st.DrawFn) -> ConvVotes:
    """Convolutional votes of any kernel, stride, padding and uneven grid."""
    kernel, stride = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    padding = draw(st.integers(0, kernel - 1))
    least = max(1, kernel - 2 * padding)
    height, width = (draw(st.integers(least, 7)) for _ in "hw")
    types, parents = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    torch.manual_seed(draw(st.integers(0, 100)))
    pose = torch.randn(2, height, width, types, 4, dtype=double)
    weight = torch.randn(kernel**2 * types, parents, 2, 2, dtype=double)
    return ConvVotes(pose, weight, kernel_size=kernel, stride=stride, padding=padding, space="matrix")


def by_loops(votes: ConvVotes, sample: int) -> references.VotesOf:
    height, width = votes.input_grid
    pose = votes.pose[sample].view(height, width, -1, 4).numpy()
    return references.conv_votes(pose, votes.weight.numpy(), votes.kernel_size, votes.stride, votes.padding)


def child_numbers(votes: ConvVotes) -> dict[tuple[int, ...], int]:
    shape = (*votes.input_grid, votes.total_children // (votes.input_grid[0] * votes.input_grid[1]))
    return {place: number for number, place in enumerate(np.ndindex(shape))}


@given(fields())
@FEW
def test_conv_votes_equal_explicit_loops(votes: ConvVotes) -> None:
    numbers, index, tensor = child_numbers(votes), votes.index, votes.tensor()
    assert index is not None
    assert votes.grid is not None
    for (y, x, j), field in by_loops(votes, 1).items():
        position = y * votes.grid[1] + x
        seen = {int(n): place for place, n in enumerate(index[position]) if n < votes.total_children}
        assert set(seen) == {numbers[child] for child in field}
        for child, vote in field.items():
            ours = tensor[1, position, seen[numbers[child]], j]
            np.testing.assert_allclose(ours.numpy(), vote, atol=1e-12)


@given(fields(), st.booleans())
@FEW
def test_normalization_runs_over_all_parents_at_all_positions(votes: ConvVotes, hard: bool) -> None:
    assert votes.index is not None
    logits = torch.randn(2, votes.positions, votes.children, votes.parents, dtype=double)
    ours = votes.hard(logits) if hard else votes.softmax(logits)
    start = votes.uniform()
    for child in range(votes.total_children):
        mine = votes.index == child
        if mine.any():
            theirs = logits[:, mine].flatten(1)
            wanted = (theirs == theirs.amax(1, True)).to(double) if hard else theirs.softmax(1)
            torch.testing.assert_close(ours[:, mine].flatten(1), wanted)
            torch.testing.assert_close(
                start[:, mine].flatten(1), torch.full_like(theirs, 1 / theirs.shape[1])
            )
    outside = votes.index == votes.total_children
    assert not ours[:, outside].any()
    assert not start[:, outside].any()


def test_leak_is_a_parent_more_at_logit_zero() -> None:
    votes = SharedVotes(torch.randn(2, 5, 3), torch.randn(4, 3, 3))
    logits = torch.randn(2, 1, 5, 4)
    with_none = torch.cat([logits, torch.zeros(2, 1, 5, 1)], -1).softmax(-1)
    torch.testing.assert_close(votes.softmax(logits, leak=True), with_none[..., :-1])


def test_ties_are_shared_by_hard_assignment() -> None:
    votes = SharedVotes(torch.randn(1, 1, 3), torch.randn(4, 3, 3))
    torch.testing.assert_close(
        votes.hard(torch.tensor([[[[2.0, 1.0, 2.0, 0.0]]]])), torch.tensor([[[[0.5, 0, 0.5, 0]]]])
    )


def test_dense_and_shared_votes_multiply_as_the_papers_do() -> None:
    u, W = torch.randn(2, 3, 4, dtype=double), torch.randn(3, 5, 4, 6, dtype=double)
    M, N = torch.randn(2, 3, 9, dtype=double), torch.randn(3, 5, 3, 3, dtype=double)
    dense, shared = DenseVotes(u, W).tensor(), SharedVotes(u, W[0]).tensor()
    matrix, one_matrix = (
        DenseVotes(M, N, space="matrix").tensor(),
        SharedVotes(M, N[0], space="matrix").tensor(),
    )
    for b, i, j in np.ndindex(2, 3, 5):
        torch.testing.assert_close(dense[b, 0, i, j], W[i, j].T @ u[b, i])
        torch.testing.assert_close(shared[b, 0, i, j], W[0, j].T @ u[b, i])
        torch.testing.assert_close(matrix[b, 0, i, j].view(3, 3), M[b, i].view(3, 3) @ N[i, j])
        torch.testing.assert_close(one_matrix[b, 0, i, j].view(3, 3), M[b, i].view(3, 3) @ N[0, j])


def test_class_votes_equal_explicit_loops() -> None:
    pose, weight = torch.randn(2, 3, 5, 2, 9, dtype=double), torch.randn(2, 4, 3, 3, dtype=double)
    ours = ClassVotes(pose, weight, space="matrix").tensor()[1, 0].view(3, 5, 2, 4, 9)
    for (j,), field in references.class_votes(pose[1].numpy(), weight.numpy()).items():
        for place, vote in field.items():
            np.testing.assert_allclose(ours[(*place, j)].numpy(), vote, atol=1e-12)


def test_coordinates_of_vector_poses_are_the_first_two_numbers() -> None:
    pose, weight = torch.randn(1, 2, 4, 3, 5), torch.randn(3, 2, 5, 6)
    added = ClassVotes(pose, weight).tensor() - ClassVotes(pose, weight, coordinates=False).tensor()
    added = added.view(2, 4, 3, 2, 6)
    torch.testing.assert_close(added[1, 2, 0, 0], torch.tensor([0.75, 0.625, 0, 0, 0, 0]), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: DenseVotes(torch.ones(2, 6, 8), torch.ones(5, 3, 8, 4)), r"pose must be \[B, N=5"),
        (lambda: DenseVotes(torch.ones(2, 6, 7), torch.ones(6, 3, 8, 4)), "pose must have 8 numbers"),
        (
            lambda: DenseVotes(torch.ones(2, 6, 8), torch.ones(6, 3, 8, 4).double()),
            "pose must be torch.float64",
        ),
        (
            lambda: DenseVotes(torch.ones(2, 6, 6), torch.ones(6, 3, 2, 3), space="matrix"),
            "weight of matrix",
        ),
        (lambda: SharedVotes(torch.ones(2, 6), torch.ones(3, 8, 4)), "pose must be"),
        (lambda: SharedVotes([1], torch.ones(3, 8, 4)), "pose must be a tensor"),  # type: ignore[arg-type]
        (lambda: ClassVotes(torch.ones(2, 6, 4), torch.ones(3, 2, 2, 2)), r"pose must be \[B, H, W, C=3"),
        (lambda: ClassVotes(torch.ones(2, 3, 3, 3, 4), torch.ones(3, 2, 4, 1)), "coordinates"),
    ],
)
def test_wrong_votes_name_the_argument(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kernel_size": 0}, "kernel_size"),
        ({"kernel_size": 3, "stride": 0}, "stride"),
        ({"kernel_size": 3, "padding": -1}, "padding"),
        ({"kernel_size": 3, "padding": 3}, "padding must be below kernel_size=3"),
        ({"kernel_size": 2}, "weight must have K·K·C rows"),
    ],
)
def test_wrong_fields_name_the_argument(options: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ConvVotes(torch.ones(1, 5, 5, 2, 4), torch.ones(18, 3, 2, 2), space="matrix", **options)


def test_a_grid_smaller_than_the_field_says_which_side() -> None:
    with pytest.raises(ValueError, match=r"height 2.* no field of kernel_size 3"):
        ConvVotes(torch.ones(1, 2, 5, 2, 4), torch.ones(18, 3, 2, 2), space="matrix", kernel_size=3)

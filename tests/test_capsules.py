import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support import references
from support.layers import FEW
from torchcaps import Capsules, length, squash
from torchcaps.capsules import SQUASHES

KINDS = sorted(SQUASHES)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=6))
@FEW
def test_squash_equals_the_formula(kind: str, numbers: list[float]) -> None:
    ours = squash(torch.tensor(numbers, dtype=torch.float64), kind)
    np.testing.assert_allclose(ours.numpy(), references.squash(np.array(numbers), kind), atol=1e-12)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "none"])
def test_squash_keeps_the_direction_and_stays_below_one(kind: str) -> None:
    vectors = (
        torch.randn(100, 5, dtype=torch.float64) * torch.logspace(-6, 3, 100, dtype=torch.float64)[:, None]
    )
    short = squash(vectors, kind)
    assert length(short).max() <= 1 + 1e-12
    torch.testing.assert_close(
        torch.cosine_similarity(short, vectors, eps=0), torch.ones(100, dtype=torch.float64)
    )
    growing = length(squash(torch.linspace(0, 30, 200, dtype=torch.float64)[:, None], kind))
    assert bool((growing.diff() >= -1e-12).all())


@pytest.mark.parametrize("kind", KINDS)
def test_squash_has_the_slope_of_its_formula(kind: str) -> None:
    torch.autograd.gradcheck(
        lambda x: squash(x, kind), torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-15, 1e-5, 1.0, 1e5, 1e15])
def test_squash_is_finite_in_value_and_slope(kind: str, scale: float) -> None:
    vectors = torch.full((2, 8), scale, requires_grad=True)
    short = squash(vectors, kind)
    (short.sum() + length(short).sum()).backward()
    assert short.isfinite().all()
    assert vectors.grad is not None
    assert vectors.grad.isfinite().all()


def test_capsules_flatten_by_row_column_type() -> None:
    pose = torch.arange(2 * 3 * 2 * 5.0).view(1, 2, 3, 2, 5)
    flat = Capsules.from_vectors(pose).flatten()
    torch.testing.assert_close(flat.pose[0, (1 * 3 + 2) * 2 + 1], pose[0, 1, 2, 1])
    torch.testing.assert_close(flat.activation, length(flat.pose))


@pytest.mark.parametrize("bad", [[1.0], None, torch.ones(3, dtype=torch.int64), torch.tensor(1.0)])
def test_what_is_no_vector_is_refused(bad: object) -> None:
    for function in (length, squash, Capsules.from_vectors):
        with pytest.raises(ValueError, match="vectors"):
            function(bad)  # type: ignore[operator]


def test_unknown_squash_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown kind 'hintn': did you mean 'hinton'"):
        squash(torch.ones(2), "hintn")


def test_no_squash_leaves_vectors_as_they_are() -> None:
    vectors = torch.randn(4, 3) * torch.tensor([[0.0], [1e-3], [1.0], [1e20]])
    vectors.requires_grad_()
    same = squash(vectors, "none")
    assert torch.equal(same, vectors)
    same.sum().backward()
    assert torch.equal(vectors.grad, torch.ones_like(vectors))


@pytest.mark.parametrize("size", [1e-23, 1e-22, 1e-21, 1e-20, 1e-18])
def test_a_length_has_all_its_digits_or_is_0(size: float) -> None:
    """The square of 1e-22 is a denormal number of a few bits in float32."""
    vector = size * torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    exact = vector.double().norm(dim=-1)
    found = length(vector).double()
    assert (((found - exact).abs() <= 1e-6 * exact) | (found == 0)).all()
    assert (found > 0).all() or size < 1e-18

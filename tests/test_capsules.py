from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

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


DIRECTIONS = torch.nn.functional.normalize(torch.randn(40, 8, generator=torch.Generator().manual_seed(0)))


def assert_accurate(function: Callable[[Tensor], Tensor], vectors: Tensor) -> None:
    """Values and gradients in float32 equal those in float64 up to a few units in the last place."""
    results = []
    for dtype in (torch.float32, torch.float64):
        leaf = vectors.to(dtype, copy=True).requires_grad_()
        value = function(leaf)
        weights = torch.randn(value.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
        (gradient,) = torch.autograd.grad(value, leaf, weights)
        results.append((value.detach().double(), gradient.double()))
    for name, single, double in zip(("value", "gradient"), *results):
        error, size = (single - double).norm(dim=-1), double.norm(dim=-1)
        # Below 1e-38 a float32 number has fewer digits, in steps of 1.4e-45.
        assert bool((error <= 1e-6 * size + 1e-44).all()), f"{name}: off by {(error / size).max():.2g}"


@pytest.mark.parametrize("kind", ["length", *KINDS])
def test_float32_is_accurate_at_any_length(kind: str) -> None:
    scales = 10.0 ** torch.arange(-37, 19, dtype=torch.float64)
    vectors = (DIRECTIONS * scales[:, None, None]).float()
    assert_accurate(length_column if kind == "length" else lambda each: squash(each, kind), vectors)


@given(st.floats(-37, 18), st.integers(1, 20), st.sampled_from(["length", *KINDS]), st.integers(0, 2**31))
@FEW
def test_float32_is_accurate_at_any_length_and_size(exponent: float, size: int, kind: str, seed: int) -> None:
    # The radial slope, 2 / n³ at a great length n, is lost beside the others, 1 / n: not with one number.
    generator = torch.Generator().manual_seed(seed)
    direction = torch.nn.functional.normalize(torch.randn(5, 1 + size, generator=generator))
    assert_accurate(
        length_column if kind == "length" else lambda each: squash(each, kind), direction * 10.0**exponent
    )


def length_column(vectors: Tensor) -> Tensor:
    return length(vectors, keepdim=True)


def plain_length(vectors: Tensor) -> Tensor:
    return (vectors * vectors).sum(-1, keepdim=True).sqrt()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ordinary_lengths_have_the_bits_of_the_plain_formula(dtype: torch.dtype) -> None:
    exponents = torch.linspace(-14, 9, len(DIRECTIONS), dtype=torch.float64)[:, None]
    vectors = (DIRECTIONS.double() * 10**exponents).to(dtype).requires_grad_()
    n = plain_length(vectors)
    for ours, plain in (
        (length_column(vectors), n),
        (squash(vectors), vectors * (n / (1 + n * n))),
        (squash(vectors, "half"), vectors * (n / (0.5 + n * n))),
    ):
        assert torch.equal(ours, plain)
        weights = torch.randn(ours.shape, dtype=dtype)
        gradients = [torch.autograd.grad(each, vectors, weights, retain_graph=True) for each in (ours, plain)]
        assert torch.equal(gradients[0][0], gradients[1][0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_lengths_do_not_overflow(dtype: torch.dtype) -> None:
    vectors = torch.tensor([[300.0, 400.0], [0.0, 0.0]], dtype=dtype, requires_grad=True)
    lengths = length(vectors)
    assert lengths.dtype == dtype
    assert lengths.tolist() == [500.0, 0.0]
    lengths.sum().backward()
    assert vectors.grad is not None
    torch.testing.assert_close(
        vectors.grad.float(), torch.tensor([[0.6, 0.8], [0.0, 0.0]]), rtol=1e-2, atol=0
    )


def test_length_has_the_slopes_of_its_formula() -> None:
    vectors = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(length, vectors, check_forward_ad=True)
    torch.autograd.gradgradcheck(length, vectors)


@pytest.mark.parametrize("kind", KINDS)
def test_squash_has_the_second_slope_of_its_formula(kind: str) -> None:
    torch.autograd.gradgradcheck(
        lambda x: squash(x, kind), torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    )


def test_squash_compiles_into_one_graph_and_takes_vmap() -> None:
    vectors = DIRECTIONS * torch.logspace(-30, 18, len(DIRECTIONS))[:, None]
    compiled = torch.compile(squash, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(vectors), squash(vectors))
    torch.testing.assert_close(torch.vmap(squash)(vectors), squash(vectors))


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

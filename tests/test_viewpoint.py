"""The law of viewpoints, and the table of docs/viewpoint.md that says where it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from support.viewpoints import COLUMNS, TABLE, em, example, markdown, verdict
from torchcaps import Capsules, ClassCaps, ConvCaps, DenseCaps, list_routings
from torchcaps.testing import assert_viewpoint_equivariant

PAGE = Path(__file__).parents[1] / "docs" / "viewpoint.md"


@pytest.mark.parametrize("name", TABLE)
def test_the_law_holds_where_the_table_says_so_and_nowhere_else(name: str) -> None:
    """Where it fails, it fails clearly: at a tolerance of 1e-4 as at 1e-6."""
    options, words = TABLE[name]
    for atol in (1e-6, 1e-4):
        assert [verdict(*column, options, atol) for column in COLUMNS] == words.split()


def test_the_page_has_this_table() -> None:
    table = markdown({name: words.split() for name, (_, words) in TABLE.items()})
    assert table in PAGE.read_text(encoding="utf-8"), f"the table of docs/viewpoint.md should be\n{table}"


def test_every_routing_is_in_the_table() -> None:
    assert {options["routing"] for options, _ in TABLE.values()} == set(list_routings())


def test_what_changed_is_named() -> None:
    children = Capsules(torch.randn(2, 6, 16), torch.rand(2, 6))
    layer = DenseCaps(6, 16, 3, 16, pose="matrix", routing="em")
    with pytest.raises(AssertionError, match="couplings differ: off by"):
        assert_viewpoint_equivariant(layer, children)
    layer = DenseCaps(6, 16, 3, 16, pose="matrix", routing="uniform")
    with pytest.raises(AssertionError, match="activations differ: off by"):
        assert_viewpoint_equivariant(layer, children)
    rotation = layer.space.random_transform("rotation")
    # A space that says that parents move, while children do not.
    layer.space.move = lambda pose, transform: pose.flip(-1) if pose.shape[-2] == 3 else pose
    with pytest.raises(AssertionError, match="poses differ from the moved ones: off by"):
        assert_viewpoint_equivariant(layer, children, transform=rotation)


def test_a_space_without_viewpoints_is_refused() -> None:
    with pytest.raises(ValueError, match="does not say how a change of viewpoint moves"):
        assert_viewpoint_equivariant(DenseCaps(6, 8, 3, 4), Capsules.from_vectors(torch.randn(2, 6, 8)))


def test_convolutional_layers_keep_the_law() -> None:
    layer = ConvCaps(2, 3, kernel_size=3, **em("rows", "mixing")).double()
    children = Capsules(torch.randn(1, 4, 4, 2, 16).double(), torch.rand(1, 4, 4, 2).double())
    assert_viewpoint_equivariant(layer, children)


def test_coordinate_addition_breaks_the_law() -> None:
    children = Capsules(torch.randn(1, 4, 4, 2, 16).double(), torch.rand(1, 4, 4, 2).double())
    without = ClassCaps(2, 3, coordinates=False, **em("rows", "mixing")).double()
    assert_viewpoint_equivariant(without, children)
    with pytest.raises(AssertionError):
        assert_viewpoint_equivariant(ClassCaps(2, 3, **em("rows", "mixing")).double(), children)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-2])
def test_epsilon_is_what_breaks_the_law_for_rows(epsilon: float) -> None:
    """The error is in proportion to epsilon, and below 1e-4 at its default for variances of about 1."""
    layer, children = example("matrix", em("rows", "mixing") | {"epsilon": epsilon})
    transform = layer.space.random_transform()
    assert_viewpoint_equivariant(layer, children, transform=transform, atol=100 * epsilon)
    with pytest.raises(AssertionError):
        assert_viewpoint_equivariant(layer, children, transform=transform, atol=1e-3 * epsilon)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (torch.eye(3), r"transform must be a tensor of shape \[4, 4\] .* got \[3, 3\]"),
        ("rotation", r"transform must be a tensor of shape \[4, 4\] .* got 'rotation'"),
    ],
)
def test_a_transform_that_does_not_fit_is_named(transform: object, message: str) -> None:
    layer = DenseCaps(6, 16, 3, 16, pose="matrix", routing="em")
    children = Capsules(torch.randn(2, 6, 16), torch.rand(2, 6))
    with pytest.raises(ValueError, match=message):
        assert_viewpoint_equivariant(layer, children, transform=transform)
    with pytest.raises(ValueError, match="capsules must be Capsules of a pose and an activation, got Tensor"):
        assert_viewpoint_equivariant(layer, children.pose)

"""A layer whose parents have one child each says so once: a single vote agrees with nothing."""

import warnings

import pytest
import torch

from torchcaps import Capsules, ConvCaps, DenseCaps, create_model

pytestmark = pytest.mark.filterwarnings("error:.*one child per parent:UserWarning")


def test_one_child_is_told_once_with_the_remedy() -> None:
    layer = DenseCaps(1, 8, 3, 4)
    with pytest.warns(UserWarning, match=r"DenseCaps\(weight=\[1, 3, 8, 4\].*one child.*larger images"):
        layer(torch.randn(2, 1, 8))
    layer(torch.randn(2, 1, 8))
    layer.history(torch.randn(2, 1, 8))
    with pytest.warns(UserWarning, match="DenseCaps.* one child per parent"):
        DenseCaps(1, 8, 3, 4).history(torch.randn(2, 1, 8))


def test_one_type_under_a_small_kernel_is_one_child() -> None:
    children = Capsules(torch.randn(2, 5, 5, 1, 16), torch.rand(2, 5, 5, 1))
    with pytest.warns(UserWarning, match=r"ConvCaps\(.*one child per parent"):
        ConvCaps(1, 3, kernel_size=1)(children)
    ConvCaps(1, 3, kernel_size=2)(children)


def test_a_network_on_images_that_are_too_small_says_so() -> None:
    network = create_model("shared_capsnet", image_size=8, stages=[[8], [16]])
    with pytest.warns(UserWarning, match=r"SharedCaps\(.*one child per parent"):
        network(torch.rand(2, 1, 8, 8))
    create_model("shared_capsnet", image_size=16, stages=[[8], [16]])(torch.rand(2, 1, 16, 16))


def test_nothing_is_said_while_a_program_is_recorded() -> None:
    layer = DenseCaps(1, 8, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.compile(layer, backend="eager", fullgraph=True)(torch.randn(2, 1, 8))

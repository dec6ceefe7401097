"""Trunks: what they promise about their feature map, and the facts of the papers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from torchcaps.models import create_trunk, list_trunks
from torchcaps.models.trunks.residual import BasicBlock, PreActBlock


@pytest.mark.parametrize("name", list_trunks())
@pytest.mark.parametrize("size", [(32, 32), (33, 30), (29, 48)])
def test_features_have_the_promised_size(name: str, size: tuple[int, int]) -> None:
    trunk = create_trunk(name, 2)
    features = trunk(torch.rand(2, 2, *size))
    assert features.shape == (2, trunk.out_channels, *trunk.grid(size))
    assert features.min() >= (
        -0.3 if name == "coordconv6" else 0
    )  # it ends with SiLU, the others with a ReLU


@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("resnet20", (8, 8)),
        ("preact", (4, 4)),
        ("conv5", (14, 14)),
        ("conv6", (4, 4)),
        ("coordconv6", (1, 1)),
    ],
)
def test_grid_of_a_32_by_32_image(name: str, grid: tuple[int, int]) -> None:
    assert create_trunk(name, 3).grid((32, 32)) == grid


def test_shortcuts_of_resnet20_have_no_weights() -> None:
    trunk = create_trunk("resnet20", 3)
    convolutions = [each for each in trunk.modules() if isinstance(each, nn.Conv2d)]
    assert len(convolutions) == 19  # with the classifier, 20 layers
    assert {each.kernel_size for each in convolutions} == {(3, 3)}


def test_shortcut_takes_every_second_pixel_and_fills_channels_with_zeros() -> None:
    block = BasicBlock(4, 8, stride=2).eval()
    nn.init.zeros_(block.bn2.weight)  # leaves the shortcut alone
    features = torch.rand(2, 4, 5, 6)
    wanted = torch.zeros(2, 8, 3, 3)
    wanted[:, 2:6] = features[:, :, ::2, ::2]
    torch.testing.assert_close(block(features), wanted)


def test_pre_activation_block_is_the_identity_without_its_residual() -> None:
    block = PreActBlock(4, 4)
    nn.init.zeros_(block.conv2.weight)
    features = torch.randn(2, 4, 5, 6)
    torch.testing.assert_close(block(features), features)


def test_unknown_trunks_and_bad_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="unknown trunk 'resnet2': did you mean 'resnet20'"):
        create_trunk("resnet2", 3)
    with pytest.raises(ValueError, match="in_channels"):
        create_trunk("preact", 0)
    with pytest.raises(ValueError, match="image_size is too small for conv5"):
        create_trunk("conv5", 1).grid((4, 28))


def test_design_page_lists_every_trunk() -> None:
    text = (Path(__file__).parents[2] / "docs" / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| (\d+) × (\d+)×(\d+) \|$", text, flags=re.MULTILINE)
    listed = {name: tuple(map(int, sizes)) for name, *sizes in rows}
    trunks = {name: create_trunk(name, 1) for name in list_trunks()}
    assert listed == {name: (each.out_channels, *each.grid((32, 32))) for name, each in trunks.items()}

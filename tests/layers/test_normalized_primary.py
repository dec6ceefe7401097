from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchcaps import NormalizedPrimaryCaps, squash


def normalized(values: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Batch normalization by its definition."""
    mean, variance = values.mean(dims, keepdim=True), values.var(dims, keepdim=True, unbiased=False)
    return (values - mean) / (variance + 1e-5).sqrt()


@pytest.mark.parametrize("norm", ["channel", "type"])
def test_poses_and_activations_are_normalized_apart(norm: str) -> None:
    layer = NormalizedPrimaryCaps(3, 4, 5, kernel_size=3, stride=2, padding=1, norm=norm)
    features = torch.randn(6, 3, 7, 9)
    capsules = layer(features)
    assert capsules.pose.shape == (6, 4, 5, 4, 5)
    poses = layer.pose(features).unflatten(1, (4, 5))  # [B, C, D, H, W]
    wanted = normalized(poses, (0, 3, 4) if norm == "channel" else (0, 2, 3, 4))
    torch.testing.assert_close(capsules.pose, wanted.permute(0, 3, 4, 1, 2))
    logits = normalized(layer.activation[0](features), (0, 2, 3))
    torch.testing.assert_close(capsules.activation, torch.sigmoid(logits).permute(0, 2, 3, 1))


def test_lengths_are_those_of_squashed_poses() -> None:
    layer = NormalizedPrimaryCaps(3, 4, 5, lengths=True, squash="half")
    features = torch.randn(6, 3, 7, 9)
    capsules = layer(features)
    wanted = normalized(layer.pose(features).unflatten(1, (4, 5)), (0, 3, 4)).permute(0, 3, 4, 1, 2)
    torch.testing.assert_close(capsules.pose, squash(wanted, "half"))
    torch.testing.assert_close(capsules.activation, capsules.pose.norm(dim=-1))
    assert not any(isinstance(each, nn.Sequential) for each in layer.modules())


@pytest.mark.parametrize("options", [{}, {"norm": "type"}, {"lengths": True}])
def test_gradients_flow(options: dict[str, Any]) -> None:
    layer = NormalizedPrimaryCaps(2, 2, 4, **options).double()
    features = torch.randn(3, 2, 2, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: tuple(layer(x)), features)


@pytest.mark.parametrize(
    "bad",
    [{"types": 0}, {"dim": 0}, {"in_channels": 0}, {"kernel_size": 0}, {"norm": "layer"}, {"lengths": 1}],
)
def test_bad_options_are_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        NormalizedPrimaryCaps(**{"in_channels": 3, "types": 2, "dim": 4, **bad})
    with pytest.raises(ValueError, match=r"features must be .*C=3"):
        NormalizedPrimaryCaps(3, 2, 4)(torch.ones(2, 4, 6, 6))

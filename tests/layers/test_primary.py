from typing import Any

import pytest
import torch

from torchcaps import MatrixPrimaryCaps, PrimaryCaps, squash


def test_vector_capsules_are_squashed_channels() -> None:
    layer = PrimaryCaps(3, 4, 5, kernel_size=3, stride=2, padding=1)
    features = torch.randn(2, 3, 7, 9)
    capsules, channels = layer(features), layer.conv(features)
    assert capsules.pose.shape == (2, 4, 5, 4, 5)
    for kind in range(4):
        wanted = squash(channels[1, kind * 5 : kind * 5 + 5, 2, 3])
        torch.testing.assert_close(capsules.pose[1, 2, 3, kind], wanted)
    torch.testing.assert_close(capsules.activation, capsules.pose.norm(dim=-1))


def test_matrix_capsules_are_linear_with_a_sigmoid_of_their_own() -> None:
    layer = MatrixPrimaryCaps(3, 4, pose_dim=4)
    features = torch.randn(2, 3, 5, 6)
    capsules, doubled = layer(features), layer(2 * features)
    assert capsules.pose.shape == (2, 5, 6, 4, 4)
    torch.testing.assert_close(doubled.pose, 2 * capsules.pose)
    torch.testing.assert_close(torch.logit(doubled.activation), 2 * torch.logit(capsules.activation))


def test_gradients_flow() -> None:
    for layer in (PrimaryCaps(2, 2, 2).double(), MatrixPrimaryCaps(2, 2, pose_dim=4).double()):
        images = torch.randn(1, 2, 2, 2, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, layer=layer: tuple(layer(x)), images)


@pytest.mark.parametrize("kind", [PrimaryCaps, MatrixPrimaryCaps])
@pytest.mark.parametrize(
    "bad",
    [
        {"in_channels": 0},
        {"in_channels": -1},
        {"types": 0},
        {"kernel_size": 0},
        {"kernel_size": "3"},
        {"stride": 0},
        {"padding": -1},
    ],
)
def test_bad_sizes_are_named(kind: Any, bad: dict[str, Any]) -> None:
    sizes = {"in_channels": 3, "types": 2, **({"dim": 4} if kind is PrimaryCaps else {})}
    with pytest.raises(ValueError, match=next(iter(bad))):
        kind(**{**sizes, **bad})


@pytest.mark.parametrize(
    "layer", [PrimaryCaps(3, 2, 4, kernel_size=5), MatrixPrimaryCaps(3, 2, kernel_size=5)]
)
@pytest.mark.parametrize(
    ("features", "says"),
    [
        (torch.ones(2, 4, 6, 6), "features must be .*C=3"),
        (torch.ones(3, 6, 6), "features must be"),
        (torch.ones(2, 3, 4, 6), "features must be at least 5×5"),
        (torch.ones(2, 3, 6, 6).double(), "features must be torch.float32"),
        (torch.ones(2, 3, 6, 6, dtype=torch.uint8), "features must be a floating"),
        ("picture", "features must be a tensor"),
    ],
)
def test_bad_features_are_refused_by_name(layer: Any, features: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        layer(features)

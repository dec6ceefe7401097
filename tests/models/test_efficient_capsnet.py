"""Efficient-CapsNet has the published sizes."""

import pytest
import torch

from torchcaps import create_model


@pytest.mark.parametrize(
    ("name", "channels", "size", "classes", "count"),
    [
        ("efficient_capsnet", 1, 28, 10, 161_824),
        ("efficient_capsnet_overlap", 1, 36, 10, 154_656),
        ("efficient_capsnet_norb", 2, 48, 5, 151_664),
    ],
)
def test_published_number_of_parameters(
    name: str, channels: int, size: int, classes: int, count: int
) -> None:
    model = create_model(name, in_channels=channels, image_size=size, num_classes=classes, decoder=None)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    output = model(torch.rand(2, channels, size, size))
    assert output.capsules.pose.shape == (2, classes, 16)


def test_a_primary_kernel_that_leaves_several_positions_is_refused() -> None:
    with pytest.raises(ValueError, match="primary_kernel=4 leaves 6×6 positions of a map of 9×9"):
        create_model("efficient_capsnet", primary_kernel=4)
    with pytest.raises(ValueError, match="too small for efficient_capsnet: its convolution 4"):
        create_model("efficient_capsnet", image_size=10)

"""Training says if the images are too large for the network."""

import pytest
import torch

from torchcaps import create_model
from torchcaps.training.large_layer import notice_large_layer


@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        ("capsnet", 224, ["classes.weight", "443 million", "shared_capsnet"]),
        ("capsnet", 28, []),
        ("matrix_capsnet", 224, []),
        ("shared_capsnet", 224, []),
    ],
)
def test_large_images_are_named_where_they_cost(
    name: str, size: int, says: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with torch.device("meta"):
        model = create_model(name, image_size=size)
    notice_large_layer(model)
    assert len(caplog.messages) == bool(says)
    assert all(word in caplog.messages[0] for word in says)

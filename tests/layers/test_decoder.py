from typing import Any

import pytest
import torch

from torchcaps import Decoder


def test_only_the_chosen_capsule_is_looked_at() -> None:
    decoder = Decoder(4, 3, (2, 5, 6), (8,))
    pose, target = torch.randn(2, 4, 3, requires_grad=True), torch.tensor([2, 0])
    drawn = decoder(pose, target)
    assert drawn.shape == (2, 2, 5, 6)
    assert bool(((drawn > 0) & (drawn < 1)).all())
    drawn.sum().backward()
    assert pose.grad is not None
    touched = pose.grad.abs().sum(-1) > 0
    assert touched.tolist() == [[False, False, True, False], [True, False, False, False]]


def test_unmasked_decoder_looks_at_all_capsules() -> None:
    decoder = Decoder(4, 3, (2, 5, 6), (8,), masked=False)
    pose = torch.randn(2, 4, 3, requires_grad=True)
    drawn = decoder(pose, torch.tensor([2, 0]))
    torch.testing.assert_close(decoder(pose, torch.tensor([1, 3])), drawn)
    drawn.sum().backward()
    assert pose.grad is not None
    assert bool((pose.grad.abs().sum(-1) > 0).all())
    with pytest.raises(ValueError, match="masked must be True or False"):
        Decoder(4, 3, (2, 5, 6), masked="no")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, 16, (1, 8, 8)), "classes"),
        ((10, 0, (1, 8, 8)), "dim"),
        ((10, 16, (8, 8)), "image_shape must be 3 whole numbers"),
        ((10, 16, 64), "image_shape"),
        ((10, 16, (1, -8, 8)), "image_shape"),
        ((10, 16, (1, 8, 8), 512), "hidden"),
        ((10, 16, (1, 8, 8), (0,)), "hidden"),
    ],
)
def test_bad_sizes_are_named(arguments: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Decoder(*arguments)


@pytest.mark.parametrize(
    ("pose", "target", "says"),
    [
        (torch.ones(2, 3, 5), torch.tensor([0, 1]), "pose must be"),
        (torch.ones(2, 3, 4).double(), torch.tensor([0, 1]), "pose must be torch.float32"),
        (torch.ones(2, 3, 4), torch.tensor([0, 3]), r"target must lie in 0\.\.2"),
        (torch.ones(2, 3, 4), torch.tensor([0.0, 1.0]), "target must be a tensor of whole"),
        (torch.ones(2, 3, 4), 1, "target must be a tensor of whole"),
    ],
)
def test_bad_capsules_are_refused_by_name(pose: torch.Tensor, target: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Decoder(3, 4, (1, 8, 8))(pose, target)

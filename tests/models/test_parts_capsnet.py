from typing import Any

import pytest
import torch

from torchcaps import create_model
from torchcaps.models.part_detector import STRIDE, PartDetector, PartMap, place_coordinates, propose_parts


def images_of_a_blob(size: int = 128) -> torch.Tensor:
    """Something bright in the middle of an empty image: new weights reduce differences."""
    images = torch.zeros(1, 1, size, size)
    middle = size // 2
    images[..., middle - 6 : middle + 6, middle - 4 : middle + 4] = 100 * torch.rand(12, 8)
    return images


@pytest.mark.parametrize("shift", [(1, 0), (0, -1), (2, 3)])
def test_a_shift_by_strides_shifts_poses_and_nothing_else(shift: tuple[int, int]) -> None:
    torch.manual_seed(0)
    detector = PartDetector(1, 2, channels=4).double().eval()
    images = images_of_a_blob().double()
    down, right = shift
    before = detector(images)
    after = detector(images.roll((STRIDE * down, STRIDE * right), (2, 3)))
    # Away from the border, which reaches 28 pixels inward: half of the receptive field.
    inner = slice(12, -12)
    moved = PartMap(*(values.roll((down, right), (2, 3)) for values in before))
    torch.testing.assert_close(after.logits[..., inner, inner], moved.logits[..., inner, inner])
    change = torch.tensor([0.0, 0.0, right, -down], dtype=torch.float64) * 2 * STRIDE / 128
    torch.testing.assert_close(after.pose[:, :, inner, inner], moved.pose[:, :, inner, inner] + change)
    assert before.logits[..., inner, inner].std() > 1e-3


def test_the_receptive_field_is_57_pixels() -> None:
    torch.manual_seed(0)
    detector = PartDetector(1, 1, channels=4).double().eval()
    images = torch.rand(1, 1, 128, 128, dtype=torch.float64, requires_grad=True)
    detector(images).logits[0, 0, 16, 16].backward()
    assert images.grad is not None
    rows, columns = images.grad[0, 0].nonzero(as_tuple=True)
    for pixels in (rows, columns):
        assert (int(pixels.min()), int(pixels.max())) == (64 - 28, 64 + 28)


def test_coordinates_are_those_of_the_pixels() -> None:
    place = place_coordinates(8, 16, like=torch.zeros(1))
    assert place.shape == (2, 4, 2)
    # The shorter side goes from -1 to 1; place (1, 2) is the pixel in row 4 and column 8.
    torch.testing.assert_close(place[1, 2], torch.tensor([(8.5 - 8) / 4, (4 - 4.5) / 4]))


def test_larger_images_hold_the_same_parts_in_their_own_units() -> None:
    """A part of as many pixels is half as large in an image of twice the size."""
    torch.manual_seed(0)
    detector = PartDetector(1, 1, channels=4).double().eval()
    small = torch.rand(1, 1, 128, 128, dtype=torch.float64)
    large = torch.zeros(1, 1, 256, 256, dtype=torch.float64)
    large[..., :128, :128] = small
    near, far = detector(small), detector(large)
    torch.testing.assert_close(near.logits[..., :20, :20], far.logits[..., :20, :20])
    expected = near.pose[:, :, :20, :20] / 2 + torch.tensor([0.0, 0, -0.5, 0.5]).double()
    torch.testing.assert_close(far.pose[:, :, :20, :20], expected)


def test_proposals_are_the_highest_local_maxima() -> None:
    torch.manual_seed(0)
    logits = torch.full((1, 2, 6, 6), -9.0)
    logits[0, 0, 1, 1], logits[0, 0, 1, 2], logits[0, 0, 5, 5] = 3.0, 2.0, 1.0
    logits[0, 1, 1, 2] = 2.5  # another kind at a neighboring place
    pose = torch.randn(1, 2, 6, 6, 4)
    found = propose_parts(PartMap(logits, pose), 3)
    assert found.kind.tolist() == [[0, 1, 0]]
    torch.testing.assert_close(found.activation, torch.sigmoid(torch.tensor([[3.0, 2.5, 1.0]])))
    torch.testing.assert_close(
        found.pose[0], torch.stack([pose[0, 0, 1, 1], pose[0, 1, 1, 2], pose[0, 0, 5, 5]])
    )
    assert propose_parts(PartMap(logits, pose), 100).kind.shape == (1, 72)


def test_class_capsules_are_the_best_proposals() -> None:
    torch.manual_seed(0)
    model = create_model("parts_capsnet", num_classes=3, image_size=32).eval()
    images = torch.rand(2, 1, 32, 32)
    output, proposals = model(images), model.wholes(model.find_parts(images))
    torch.testing.assert_close(output.logits, torch.logsumexp(proposals.score, -1))
    for b in range(2):
        for j in range(3):
            best = int(proposals.score[b, j].argmax())
            assert torch.equal(output.capsules.pose[b, j], proposals.pose[b, j, best])


def test_it_weighs_less_than_a_megabyte() -> None:
    model = create_model("parts_capsnet", num_classes=8, image_size=64, groups=6)
    assert 4 * sum(values.numel() for values in model.state_dict().values()) < 1_000_000


def test_groups_are_constellations_of_wholes() -> None:
    torch.manual_seed(0)
    model = create_model("parts_capsnet", num_classes=3, image_size=32, groups=2).eval()
    found = model.parse(torch.rand(2, 1, 32, 32), wholes=4, groups=3)
    assert found.wholes.wholes.kind.shape == (2, 4)
    assert found.groups.wholes.kind.shape == (2, 3)
    assert found.groups.parent.shape == (2, 4)
    assert create_model("parts_capsnet", image_size=32).parse(torch.rand(1, 1, 32, 32)).groups is None


@pytest.mark.parametrize(
    "option", [{"kinds": 0}, {"groups": -1}, {"roles": 0}, {"proposals": 0}, {"channels": 0}]
)
def test_wrong_options_are_named(option: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(option))):
        create_model("parts_capsnet", **option)

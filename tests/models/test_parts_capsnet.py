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
    down, right = 2 * shift[0], 2 * shift[1]  # the deepest features have twice the stride
    before = detector(images)
    after = detector(images.roll((STRIDE * down, STRIDE * right), (2, 3)))
    # Away from the border, which reaches 32 pixels inward.
    inner = slice(24, -24)
    moved = PartMap(*(values.roll((down, right), (2, 3)) for values in before))
    torch.testing.assert_close(after.logits[..., inner, inner], moved.logits[..., inner, inner])
    change = torch.tensor([0.0, 0.0, right, -down], dtype=torch.float64) * 2 * STRIDE / 128
    torch.testing.assert_close(after.pose[:, :, inner, inner], moved.pose[:, :, inner, inner] + change)
    assert before.logits[..., inner, inner].std() > 1e-3


def test_the_receptive_field_is_61_pixels() -> None:
    torch.manual_seed(0)
    detector = PartDetector(1, 1, channels=4).double().eval()
    images = torch.rand(1, 1, 128, 128, dtype=torch.float64, requires_grad=True)
    detector(images).logits[0, 0, 32, 32].backward()
    assert images.grad is not None
    rows, columns = images.grad[0, 0].nonzero(as_tuple=True)
    for pixels in (rows, columns):
        assert (int(pixels.min()), int(pixels.max())) == (64 - 32, 64 + 28)


@pytest.mark.parametrize("size", [(30, 33), (31, 28)])
def test_odd_sizes_have_a_place_for_every_second_pixel(size: tuple[int, int]) -> None:
    found = PartDetector(1, 2, channels=2)(torch.rand(1, 1, *size))
    assert found.logits.shape[2:] == found.pose.shape[2:4] == ((size[0] + 1) // 2, (size[1] + 1) // 2)


def test_coordinates_are_those_of_the_pixels() -> None:
    place = place_coordinates(8, 16, like=torch.zeros(1))
    assert place.shape == (4, 8, 2)
    # The shorter side goes from -1 to 1; place (2, 4) is the pixel in row 4 and column 8.
    torch.testing.assert_close(place[2, 4], torch.tensor([(8.5 - 8) / 4, (4 - 4.5) / 4]))


def test_larger_images_hold_the_same_parts_in_their_own_units() -> None:
    """A part of as many pixels is half as large in an image of twice the size."""
    torch.manual_seed(0)
    detector = PartDetector(1, 1, channels=4).double().eval()
    small = torch.rand(1, 1, 128, 128, dtype=torch.float64)
    large = torch.zeros(1, 1, 256, 256, dtype=torch.float64)
    large[..., :128, :128] = small
    near, far = detector(small), detector(large)
    torch.testing.assert_close(near.logits[..., :40, :40], far.logits[..., :40, :40])
    expected = near.pose[:, :, :40, :40] / 2 + torch.tensor([0.0, 0, -0.5, 0.5]).double()
    torch.testing.assert_close(far.pose[:, :, :40, :40], expected)


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


def test_two_maxima_of_one_part_are_one() -> None:
    logits = torch.full((1, 2, 8, 8), -9.0)
    logits[0, 0, 1, 1], logits[0, 0, 1, 4], logits[0, 0, 6, 6], logits[0, 1, 1, 1] = 3.0, 2.0, 1.0, 0.0
    pose = torch.tensor([0.5, 0.0, 0.1, 0.2]).repeat(1, 2, 8, 8, 1)
    pose[0, 0, 1, 4] += 0.05  # nearly the same
    pose[0, 0, 6, 6, 2] += 0.5  # as large, but elsewhere
    found = propose_parts(PartMap(logits, pose), 4)
    expected = torch.sigmoid(torch.tensor([[3.0, 2.0, 1.0, 0.0]])) * torch.tensor([[1, 0, 1, 1]])
    torch.testing.assert_close(found.activation, expected)


def test_class_capsules_are_the_best_proposals() -> None:
    torch.manual_seed(0)
    model = create_model("parts_capsnet", num_classes=3, image_size=32).eval()
    images = torch.rand(2, 1, 32, 32)
    output, proposals = model(images), model.wholes(model.find_parts(images))
    torch.testing.assert_close(output.logits, torch.logsumexp(proposals.score, -1))
    for b in range(2):
        for j in range(3):
            assert torch.equal(output.capsules.pose[b, j], proposals.best[b, j])
    assert torch.equal(output.capsules.activation, output.scores)


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

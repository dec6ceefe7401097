from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from torchcaps.data import transforms


def uniform(count: int) -> torch.Tensor:
    return torch.rand(count, 2, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (50, 2, 12, 10), dtype=torch.uint8)


def test_each_image_is_translated_by_itself_and_zeros_come_in(images: torch.Tensor) -> None:
    shifted = transforms.translate(images, 2, uniform(50))
    padded = F.pad(images, [2] * 4)
    seen = set()
    for before, after in zip(padded, shifted):
        places = [
            (y, x)
            for y in range(5)
            for x in range(5)
            if torch.equal(before[:, y : y + 12, x : x + 10], after)
        ]
        assert len(places) == 1
        seen.update(places)
    assert len(seen) > 15
    assert shifted.dtype == torch.uint8


@pytest.mark.parametrize(("number", "turns"), [(1.0, 1), (0.0, -1), (0.5, 0)])
def test_a_rotation_by_90_degrees_is_exact_and_counter_clockwise(number: float, turns: int) -> None:
    square = torch.rand(3, 2, 7, 7)
    turned = transforms.rotate(square, 90, 0.3, torch.tensor([[number, 0.5]] * 3))
    torch.testing.assert_close(turned, square.rot90(turns, (2, 3)), atol=1e-5, rtol=0)


def test_an_oblong_image_is_rotated_not_sheared(images: torch.Tensor) -> None:
    upside_down = transforms.rotate(images, 180, 0, torch.tensor([[1.0, 0.5]] * 50))
    torch.testing.assert_close(upside_down, images.flip(2, 3) / 255, atol=1e-4, rtol=0)
    dot = torch.zeros(1, 1, 31, 15)
    dot[0, 0, 15, 12] = 1
    upright = transforms.rotate(dot, 90, 0, torch.tensor([[1.0, 0.5]]))
    assert upright.flatten().argmax() == 10 * 15 + 7  # five pixels right of the middle, then five above it


@pytest.mark.parametrize("scale_by", [0.5, -0.5])
def test_scaling_moves_what_is_off_center(scale_by: float) -> None:
    dots = torch.zeros(1, 1, 21, 21)
    dots[0, 0, 10, 12:15] = 1
    scaled = transforms.rotate(dots, 0, abs(scale_by), torch.tensor([[0.5, 1.0 if scale_by > 0 else 0.0]]))
    mean = (scaled[0, 0].sum(0) * torch.arange(21)).sum() / scaled.sum()
    assert float(mean) - 10 == pytest.approx(3 * (1 + scale_by), abs=0.2)


def test_each_image_is_rotated_by_itself(images: torch.Tensor) -> None:
    turned = transforms.rotate(images[:1].expand(50, -1, -1, -1), 10, 0.1, uniform(50))
    assert len({tuple(image.flatten().tolist()) for image in turned}) == 50


def test_a_random_crop_is_a_window_anywhere(images: torch.Tensor) -> None:
    cropped = transforms.crop(images, 8, uniform(50))
    seen = set()
    for before, after in zip(images, cropped):
        places = [
            (y, x) for y in range(5) for x in range(3) if torch.equal(before[:, y : y + 8, x : x + 8], after)
        ]
        assert len(places) == 1
        seen.update(places)
    assert len(seen) > 12
    assert {y for y, _ in seen} == set(range(5))
    assert {x for _, x in seen} == set(range(3))


def test_the_largest_number_stays_inside(images: torch.Tensor) -> None:
    nearly_one = torch.full((50, 2), 1 - 2**-24)
    assert torch.equal(transforms.crop(images, 8, nearly_one), images[..., 4:, 2:])
    assert torch.equal(transforms.translate(images, 2, nearly_one)[..., :-2, :-2], images[..., 2:, 2:])


def test_grid_crops_have_corners_and_center(images: torch.Tensor) -> None:
    grid = transforms.grid_crops(images, 8, 3)
    assert torch.equal(grid[:, 0], images[..., :8, :8])
    assert torch.equal(grid[:, 4], transforms.center_crop(images, 8))
    assert torch.equal(grid[:, 8], images[..., 4:, 2:])
    assert torch.equal(transforms.grid_crops(images, 8, 1)[:, 0], transforms.center_crop(images, 8))


@pytest.mark.parametrize(
    "crop",
    [
        transforms.center_crop,
        transforms.grid_crops,
        lambda images, size: transforms.crop(images, size, uniform(len(images))),
    ],
)
def test_a_crop_that_does_not_fit_is_refused(crop, images: torch.Tensor) -> None:
    for size in (0, 11):
        with pytest.raises(ValueError, match="size must be 1 to 10"):
            crop(images, size)


def test_standardize(images: torch.Tensor) -> None:
    images[0] = 7
    made = transforms.standardize(images)
    torch.testing.assert_close(made[1:].mean(dim=(1, 2, 3)), torch.zeros(49), atol=1e-5, rtol=0)
    torch.testing.assert_close(made[1:].square().mean(dim=(1, 2, 3)), torch.ones(49), atol=1e-4, rtol=0)
    assert made[0].abs().max() < 1e-3


def test_brightness_and_contrast(images: torch.Tensor) -> None:
    floats = transforms.to_float(images)
    numbers = uniform(50)
    made = transforms.adjust_brightness_contrast(images, 0.2, 0.5, numbers)
    mean = floats.mean(dim=(1, 2, 3))
    torch.testing.assert_close(made.mean(dim=(1, 2, 3)), mean + 0.2 * (2 * numbers[:, 0] - 1))
    spread = floats.flatten(1).std(1) * (1 + 0.5 * (2 * numbers[:, 1] - 1))
    torch.testing.assert_close(made.flatten(1).std(1), spread)
    torch.testing.assert_close(transforms.adjust_brightness_contrast(images, 0, 0, numbers), floats)


def test_resize_keeps_the_type_and_averages(images: torch.Tensor) -> None:
    small = transforms.resize(images, (6, 5))
    expected = F.avg_pool2d(images.float(), 2).round()
    assert small.dtype == torch.uint8
    assert torch.equal(small.float(), expected)
    assert transforms.resize(images.float(), 20).shape == (50, 2, 20, 20)
    assert transforms.resize(images, (12, 10)) is images


def test_an_empty_batch_passes(images: torch.Tensor) -> None:
    none = images[:0]
    assert transforms.translate(none, 2, uniform(0)).shape == (0, 2, 12, 10)
    assert transforms.crop(none, 8, uniform(0)).shape == (0, 2, 8, 8)
    assert transforms.standardize(none).shape == (0, 2, 12, 10)
    assert transforms.resize(none, 4).shape == (0, 2, 4, 4)
    assert transforms.rotate(none, 10, 0.1, uniform(0)).shape == (0, 2, 12, 10)

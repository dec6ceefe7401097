from __future__ import annotations

import pytest
import torch

from torchcaps.data import Preprocess, transforms


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(0, 256, (6, 2, 48, 48), dtype=torch.uint8)


def test_without_options_images_are_only_scaled_to_0_1(images: torch.Tensor) -> None:
    plain = Preprocess()
    assert torch.equal(plain.test(images), images.float() / 255)
    assert torch.equal(plain.train(images, plain.draw(6, torch.Generator())), images.float() / 255)


def test_smallnorb_is_standardized_whole_then_cropped(images: torch.Tensor) -> None:
    pipeline = Preprocess(crop=32, standardize=True)
    whole = transforms.standardize(images)
    assert torch.equal(pipeline.test(images), whole[..., 8:40, 8:40])
    assert torch.equal(pipeline.test_crops(images, 3)[:, 0], whole[..., :32, :32])


def test_training_varies_and_test_does_not(images: torch.Tensor) -> None:
    pipeline = Preprocess(resize=40, translate=2, crop=32, brightness=0.2, contrast=0.2)
    numbers = pipeline.draw(12, torch.Generator().manual_seed(0))
    first, other = pipeline.train(images, numbers[:6]), pipeline.train(images, numbers[6:])
    assert first.shape == pipeline.test(images).shape == (6, 2, 32, 32)
    assert not torch.equal(first, other)
    assert 0 <= first.min() <= first.max() <= 1
    assert torch.equal(pipeline.test(images), pipeline.test(images))


def test_images_are_independent(images: torch.Tensor) -> None:
    pipeline = Preprocess(translate=2, crop=32, brightness=0.2, contrast=0.2, standardize=True)
    numbers = pipeline.draw(6, torch.Generator())
    together = pipeline.train(images, numbers)
    alone = torch.cat([pipeline.train(images[row : row + 1], numbers[row : row + 1]) for row in range(6)])
    torch.testing.assert_close(together, alone)


def test_one_option_does_not_change_the_numbers_of_another(images: torch.Tensor) -> None:
    numbers = Preprocess().draw(6, torch.Generator())
    cropped = Preprocess(crop=32).train(images, numbers)
    assert torch.equal(Preprocess(crop=32, translate=0, brightness=0.0).train(images, numbers), cropped)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"translate": -1}, "'translate' must be a whole number of at least 0, got -1"),
        ({"translate": 1.5}, "'translate' must be a whole number"),
        ({"crop": 0}, "'crop' must be a whole number of at least 1"),
        ({"crop": True}, "'crop'"),
        ({"brightness": "much"}, "'brightness' must be a finite number"),
        ({"contrast": float("nan")}, "'contrast'"),
        ({"standardize": 1}, "'standardize' must be True or False"),
        ({"resize": 20, "crop": 32}, "does not fit"),
        ({"rotate": -5}, "'rotate' must be a finite number of at least 0"),
        ({"rotate": float("inf")}, "'rotate' must be a finite number of at least 0"),
        ({"scale": 1.0}, "'scale' must be less than 1"),
        ({"standardise": True}, "did you mean 'standardize'"),
    ],
)
def test_wrong_options_are_explained(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Preprocess.from_options(options)


def test_sizes() -> None:
    assert Preprocess().output_size((28, 20)) == (28, 20)
    assert Preprocess(resize=24).output_size((28, 20)) == (24, 24)
    assert Preprocess(resize=24, crop=20).output_size((28, 20)) == (20, 20)
    with pytest.raises(ValueError, match="crop"):
        Preprocess().test_crops(torch.zeros(1, 1, 4, 4))


def test_half_of_the_images_are_flipped_and_nothing_else_changes() -> None:
    images = torch.randint(0, 256, (400, 1, 6, 6), dtype=torch.uint8)
    flipping, plain = Preprocess(translate=1, flip=True), Preprocess(translate=1)
    numbers = flipping.draw(400, torch.Generator().manual_seed(0))
    assert numbers.shape == (400, 7)
    made, unflipped = flipping.train(images, numbers), plain.train(images, numbers[:, :6])
    swapped = (made == unflipped.flip(-1)).flatten(1).all(1)
    kept = (made == unflipped).flatten(1).all(1)
    assert bool((swapped | kept).all())
    assert 150 < int(swapped.sum()) < 250
    assert torch.equal(flipping.test(images), plain.test(images))


def test_rotation_comes_before_translation_and_only_in_training() -> None:
    images = torch.randint(0, 256, (40, 1, 8, 8), dtype=torch.uint8)
    both, shifting = Preprocess(rotate=15, scale=0.1, translate=2), Preprocess(translate=2)
    numbers = both.draw(40, torch.Generator().manual_seed(0))
    turned = transforms.rotate(images, 15, 0.1, numbers[:, 7:9])
    expected = transforms.translate(turned, 2, numbers[:, 0:2])
    assert torch.equal(both.train(images, numbers), expected)
    assert torch.equal(both.test(images), shifting.test(images))


@pytest.mark.parametrize(
    ("options", "numbers"),
    [({"translate": 2}, 6), ({"flip": True}, 7), ({"rotate": 10}, 9), ({"scale": 0.1}, 9)],
)
def test_recipes_without_rotation_draw_the_same_numbers_as_before(options: dict, numbers: int) -> None:
    assert Preprocess(**options).draw(3, torch.Generator()).shape == (3, numbers)


def test_flip_must_be_true_or_false() -> None:
    with pytest.raises(ValueError, match="'flip' must be True or False"):
        Preprocess(flip=1)

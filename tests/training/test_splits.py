import pytest
import torch

from torchcaps.data import limit_images, load
from torchcaps.training.datasets import LabeledImages
from torchcaps.training.recipe import DataPart
from torchcaps.training.splits import load_splits, load_train


def index_set(images: torch.Tensor) -> set[bytes]:
    return {image.numpy().tobytes() for image in images}


@pytest.mark.parametrize("per_class", [False, True])
def test_fewer_images_are_a_part_of_more(per_class: bool) -> None:
    images = load("digits")
    few, more, other = (
        limit_images(images, None if per_class else count, count // 10 if per_class else None, seed).images
        for count, seed in ((50, 0), (100, 0), (50, 1))
    )
    assert (len(few), len(more)) == (50, 100)
    assert index_set(few) < index_set(more)
    assert index_set(few) != index_set(other)
    again = limit_images(images, None if per_class else 50, 5 if per_class else None, 0).images
    assert torch.equal(again, few)


def test_only_training_images_are_limited() -> None:
    whole = load_splits(DataPart("digits", val_fraction=0.25), seed=3)
    limited = load_splits(DataPart("digits", val_fraction=0.25, limit_per_class=3), seed=3)
    assert len(limited.train) == 30
    assert torch.equal(limited.validation.images, whole.validation.images)
    assert len(limited.test) == len(whole.test)
    assert index_set(limited.train.images) < index_set(whole.train.images)


def test_images_that_are_drawn_again_are_limited_in_every_epoch() -> None:
    options = {"source": "digits", "size": 8}
    data = DataPart("multimnist", options, resample_each_epoch=True, limit=20)
    assert torch.equal(load_train(data, 0, 5).images, load_splits(data, 5).train.images)
    assert len(load_train(data, 1, 5)) == 20


def test_a_limit_per_class_needs_one_label_in_memory() -> None:
    for images in (load("two_digits", source="digits"), LabeledImages([(torch.zeros(1, 2, 2), 0)] * 9)):
        with pytest.raises(ValueError, match="use limit instead"):
            limit_images(images, None, 1, 0)
        assert len(limit_images(images, 5, None, 0)) == 5

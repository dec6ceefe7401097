from __future__ import annotations

import pickle

import pytest
import torch

from torchcaps.data import ImageSet

IMAGES = torch.zeros(4, 1, 2, 2, dtype=torch.uint8)


def test_selecting_keeps_rows_together() -> None:
    made = ImageSet(IMAGES, torch.tensor([0, 1, 0, 1]), ("a", "b"), {"angle": torch.arange(4)})
    part = made.select(made.labels == 1)
    assert (part.labels.tolist(), part.metadata["angle"].tolist()) == ([1, 1], [1, 3])


def test_a_torch_dataset_of_image_and_label() -> None:
    images = torch.arange(16, dtype=torch.uint8).view(4, 1, 2, 2)
    single = ImageSet(images, torch.tensor([0, 1, 0, 1]), ("a", "b"))
    assert isinstance(single, torch.utils.data.Dataset)
    assert single.in_memory
    image, label = single[3]
    assert (image.dtype, image.flatten().tolist(), label) == (torch.uint8, [12, 13, 14, 15], 1)
    assert [label for _, label in single] == [0, 1, 0, 1]
    batch, labels = next(iter(torch.utils.data.DataLoader(single, batch_size=3)))
    assert torch.equal(batch, images[:3])
    assert labels.tolist() == [0, 1, 0]
    pairs = ImageSet(images, torch.tensor([[0, 1]] * 4), ("a", "b"))
    assert pairs[2][1].tolist() == [0, 1]
    copy = pickle.loads(pickle.dumps(single))
    assert torch.equal(copy.images, images)
    assert len({single, copy}) == 2


@pytest.mark.parametrize(
    ("images", "labels", "metadata", "message"),
    [
        (IMAGES.float(), torch.zeros(4).long(), {}, "images must be uint8"),
        (IMAGES[0], torch.zeros(4).long(), {}, "images must be uint8"),
        (IMAGES, torch.zeros(4), {}, "labels must be int64"),
        (IMAGES, torch.zeros(3).long(), {}, "labels has 3 rows for 4 images"),
        (IMAGES, torch.full((4,), 2), {}, "labels run from 2 to 2"),
        (IMAGES, torch.zeros(4).long(), {"angle": torch.zeros(5)}, "angle has 5 rows"),
    ],
)
def test_what_does_not_fit_is_refused(images, labels, metadata: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImageSet(images, labels, ("a", "b"), metadata)

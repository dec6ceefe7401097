from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from torchcaps.data import ImageSet, load
from torchcaps.data.datasets.mnist import MNIST, MNIST_CLASSES, read_pair
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.formats.idx import write_idx
from torchcaps.errors import DataError


def collection(folder: Path, images: np.ndarray, labels: np.ndarray) -> Collection:
    """A made-up set whose checksums fit."""
    sha256 = {}
    for name, array in {"t10k-images-idx3-ubyte": images, "t10k-labels-idx1-ubyte": labels}.items():
        write_idx(folder / name, array)
        sha256[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return Collection("made_up", sha256)


def test_images_and_labels_are_read(tmp_path: Path, cache: Path) -> None:
    images = np.arange(3 * 784, dtype=np.uint32).astype(np.uint8).reshape(3, 28, 28)
    made = collection(tmp_path, images, np.array([7, 2, 1], np.uint8))
    read = read_pair(made, MNIST_CLASSES, "test", tmp_path)
    np.testing.assert_array_equal(read.images[:, 0].numpy(), images)
    assert read.labels.tolist() == [7, 2, 1]
    assert read.labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("images", "labels", "fault"),
    [
        (np.zeros((2, 28, 27), np.uint8), np.zeros(2, np.uint8), r"images-idx3-ubyte: images of shape"),
        (np.zeros((2, 28), np.uint8), np.zeros(2, np.uint8), r"images-idx3-ubyte: images of shape"),
        (np.zeros((2, 28, 28), np.uint8), np.zeros(3, np.uint8), r"labels-idx1-ubyte: labels of shape \[3\]"),
        (np.zeros((1, 28, 28), np.uint8), np.array([10], np.uint8), r"labels-idx1-ubyte: label 10"),
    ],
)
def test_files_that_do_not_fit_are_refused(images, labels, fault: str, tmp_path: Path, cache: Path) -> None:
    with pytest.raises(DataError, match=fault):
        read_pair(collection(tmp_path, images, labels), MNIST_CLASSES, "test", tmp_path)


def test_a_file_put_by_hand_is_checked(tmp_path: Path, cache: Path) -> None:
    for name in MNIST.sha256:
        write_idx(tmp_path / "mnist" / f"{name}.gz", np.zeros((1, 28, 28), np.uint8))
    with pytest.raises(DataError, match=r"sha256 .* was expected"):
        load("mnist", "test", data_dir=tmp_path)


def test_an_unknown_split_gets_a_suggestion() -> None:
    with pytest.raises(ValueError, match="did you mean 'test'"):
        load("fashion_mnist", "tst")


def test_real_mnist(mnist_test: ImageSet) -> None:
    assert mnist_test.images.shape == (10_000, 1, 28, 28)
    assert mnist_test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert mnist_test.labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert mnist_test.images.float().mean().item() == pytest.approx(33.79, abs=0.01)

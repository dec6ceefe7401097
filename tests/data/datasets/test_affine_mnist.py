from __future__ import annotations

import math
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.io import savemat

from torchcaps.data import ImageSet, load
from torchcaps.data.datasets.affine_mnist import invert, matrices, transform, transform_set
from torchcaps.errors import DataError


def blob(y: int, x: int) -> torch.Tensor:
    image = torch.zeros(1, 1, 28, 28, dtype=torch.uint8)
    image[..., y, x] = 200
    return image


def center_of(image: torch.Tensor) -> tuple[float, float]:
    """The ink's center (x, y), from the middle of the canvas."""
    weight = image[0, 0].double() / image.sum()
    place = torch.arange(40) - 19.5
    return float((weight.sum(0) * place).sum()), float((weight.sum(1) * place).sum())


def values(rotation=0.0, shear=0.0, scale_x=1.0, scale_y=1.0, shift_x=0.0, shift_y=0.0) -> torch.Tensor:
    return torch.tensor([[rotation, shear, scale_x, scale_y, shift_x, shift_y]])


def test_the_identity_centers_the_image() -> None:
    images = torch.randint(0, 256, (3, 1, 28, 28), dtype=torch.uint8)
    drawn = transform(images, values().expand(3, -1))
    assert torch.equal(drawn[..., 6:34, 6:34], images)
    assert int((drawn > 0).sum()) == int((images > 0).sum())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"shift_x": 3.0}, (7.5, -2.5)),
        ({"shift_y": -2.0}, (4.5, -4.5)),
        ({"scale_x": 1.2}, (5.4, -2.5)),
        ({"scale_y": 0.8}, (4.5, -2.0)),
        ({"shear": 0.2}, (4.0, -2.5)),
        ({"rotation": math.pi / 2}, (2.5, 4.5)),
    ],
)
def test_a_point_goes_where_the_formula_says(change: dict[str, float], expected: tuple[float, float]) -> None:
    # Row 11, column 18 of 28 is at (4.5, −2.5) from the center.
    found = center_of(transform(blob(11, 18), values(**change)))
    assert found == pytest.approx(expected, abs=0.15)


def test_matrices_are_inverted() -> None:
    matrix = matrices(torch.cat([values(0.3, 0.2, 0.8, 1.2), values(-0.2, -0.1, 1.1, 0.9)]))
    torch.testing.assert_close(invert(matrix) @ matrix, torch.eye(2).expand(2, 2, 2))


@pytest.fixture
def single() -> ImageSet:
    images = torch.zeros(300, 1, 28, 28, dtype=torch.uint8)
    images[:, :, 4:24, 4:24] = torch.randint(1, 256, (300, 1, 20, 20), dtype=torch.uint8)
    return ImageSet(images, torch.arange(300) % 10, tuple("0123456789"))


def test_the_ranges_of_affnist(single: ImageSet) -> None:
    facts = transform_set(single, 4, 0, moved_only=False).metadata
    ranges = {
        "rotation": (-math.radians(20), math.radians(20)),
        "shear": (-0.2, 0.2),
        "scale_x": (0.8, 1.2),
        "scale_y": (0.8, 1.2),
        "shift_x": (-8, 8),
        "shift_y": (-8, 8),
    }
    for name, (low, high) in ranges.items():
        assert low <= facts[name].min() < low + 0.25 * (high - low)
        assert high - 0.25 * (high - low) < facts[name].max() <= high


def test_no_ink_is_lost(single: ImageSet) -> None:
    made = transform_set(single, 4, 0, moved_only=False)
    area = made.metadata["scale_x"] * made.metadata["scale_y"]
    before = single.images.flatten(1).double().sum(1).repeat_interleave(4)
    kept = made.images.flatten(1).double().sum(1) / (before * area)
    assert kept.min() > 0.97


def test_training_digits_are_only_moved(single: ImageSet) -> None:
    made = transform_set(single, 1, 0, moved_only=True)
    assert torch.equal(made.images.flatten(1).sum(1), single.images.flatten(1).sum(1))
    assert made.metadata["shift_x"].unique().tolist() == list(range(-6, 7))
    assert made.metadata["rotation"].abs().max() == 0


def test_the_seed_decides() -> None:
    first, again, other = (load("affine_mnist", "test", source="digits", seed=seed) for seed in (0, 0, 1))
    assert first.images.shape == (355, 1, 40, 40)
    assert torch.equal(first.images, again.images)
    assert not torch.equal(first.images, other.images)


def affnist_file(path: Path, images: np.ndarray, labels: np.ndarray) -> None:
    savemat(path, {"affNISTdata": {"image": images.reshape(len(images), -1).T, "label_int": labels}})


def test_published_files_are_read(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 40, 40), dtype=np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 10
    for number, part in ((1, slice(0, 5)), (2, slice(5, 9)), (10, slice(9, 12))):
        affnist_file(tmp_path / f"{number}.mat", images[part], labels[part])
    read = load("affine_mnist", "test", affnist=tmp_path)
    np.testing.assert_array_equal(read.images[:, 0].numpy(), images)
    assert read.labels.tolist() == labels.tolist()
    assert len(load("affine_mnist", "test", affnist=tmp_path / "2.mat")) == 4


@pytest.mark.parametrize("keep", [0, 100, 3000])
def test_a_damaged_file_is_named(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "cut.mat"
    affnist_file(path, np.zeros((5, 40, 40), np.uint8), np.zeros(5, np.uint8))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"cut\.mat"):
        load("affine_mnist", "test", affnist=path)


@pytest.mark.parametrize("packed", [False, True])
def test_an_unknown_type_is_an_error_and_no_crash(tmp_path: Path, packed: bool) -> None:
    """scipy looks a type up in a table without checking that it is there."""
    record = {"image": np.zeros((1600, 3), np.uint8), "label_int": np.array([[1, 2, 3]], np.uint8)}
    savemat(tmp_path / "a.mat", {"affNISTdata": record}, do_compression=packed)
    content = bytearray((tmp_path / "a.mat").read_bytes())
    assert len(load("affine_mnist", "test", affnist=tmp_path / "a.mat")) == 3
    inner = bytearray(zlib.decompress(content[136:])) if packed else content[128:]
    assert inner[152] == 2  # the type of the pixels: unsigned bytes
    inner[152] = 148
    stored = zlib.compress(inner) if packed else inner
    head = content[:128] + (struct.pack("<II", 15, len(stored)) if packed else b"")
    (tmp_path / "a.mat").write_bytes(head + stored)
    with pytest.raises(DataError, match=r"a\.mat: it is not an affNIST file .*unknown type 148"):
        load("affine_mnist", "test", affnist=tmp_path / "a.mat")


def test_another_shape_is_named(tmp_path: Path) -> None:
    affnist_file(tmp_path / "a.mat", np.zeros((5, 28, 28), np.uint8), np.zeros(5, np.uint8))
    with pytest.raises(DataError, match=r"a\.mat: uint8 images \[784, 5\]"):
        load("affine_mnist", "test", affnist=tmp_path / "a.mat")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no \.mat files"):
        load("affine_mnist", "test", affnist=tmp_path / "empty")

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchcaps.data.formats.cifar import RECORD, format_cifar, parse_cifar
from torchcaps.errors import DataError


def batch(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
    return images, random.integers(0, 10, count, dtype=np.uint8)


@given(count=st.integers(1, 4), seed=st.integers(0, 99))
def test_what_is_written_is_read(count: int, seed: int) -> None:
    images, labels = batch(count, seed)
    again_images, again_labels = parse_cifar(bytearray(format_cifar(images, labels)), "a.bin", count)
    np.testing.assert_array_equal(again_images, images)
    np.testing.assert_array_equal(again_labels, labels)


@given(count=st.integers(1, 3), cut=st.integers(0, 3 * RECORD))
def test_a_file_cut_anywhere_is_refused(count: int, cut: int) -> None:
    whole = format_cifar(*batch(count, 0))
    with pytest.raises(DataError, match=r"cut\.bin"):
        parse_cifar(bytearray(whole[: cut % len(whole)]), "cut.bin", count)


@given(more=st.binary(min_size=1, max_size=9))
def test_trailing_bytes_are_refused(more: bytes) -> None:
    with pytest.raises(DataError, match=r"long\.bin"):
        parse_cifar(bytearray(format_cifar(*batch(2, 0)) + more), "long.bin")


@given(record=st.integers(0, 2), label=st.integers(10, 255))
def test_an_impossible_label_is_refused(record: int, label: int) -> None:
    wrong = bytearray(format_cifar(*batch(3, 0)))
    wrong[record * RECORD] = label
    with pytest.raises(DataError, match=rf"label\.bin: record {record} has label {label}"):
        parse_cifar(wrong, "label.bin")


@given(noise=st.binary(max_size=50))
def test_short_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(DataError, match=r"noise\.bin"):
        parse_cifar(bytearray(noise), "noise.bin")


def test_another_number_of_records_is_refused() -> None:
    with pytest.raises(DataError, match=r"two\.bin: 2 records; 3 were expected"):
        parse_cifar(bytearray(format_cifar(*batch(2, 1))), "two.bin", 3)


def test_writing_checks_shapes() -> None:
    with pytest.raises(ValueError, match="uint8"):
        format_cifar(np.zeros((2, 3, 32, 32)), np.zeros(2, np.uint8))

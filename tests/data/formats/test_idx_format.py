from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from torchcaps.data.formats.idx import parse_idx, read_idx, write_idx
from torchcaps.errors import DataError

images = arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idx")


def content(folder: Path, array: np.ndarray) -> bytes:
    write_idx(folder / "a", array)
    return (folder / "a").read_bytes()


@given(array=images, suffix=st.sampled_from(["", ".gz"]))
def test_what_is_written_is_read(folder: Path, array: np.ndarray, suffix: str) -> None:
    write_idx(folder / f"a{suffix}", array)
    np.testing.assert_array_equal(read_idx(folder / f"a{suffix}"), array)


@given(array=images, data=st.data())
def test_a_file_cut_anywhere_is_refused(folder: Path, array: np.ndarray, data: st.DataObject) -> None:
    whole = content(folder, array)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DataError, match="cut-idx"):
        parse_idx(bytearray(whole[:cut]), "cut-idx")


@given(array=images, more=st.binary(min_size=1, max_size=9))
def test_trailing_bytes_are_refused(folder: Path, array: np.ndarray, more: bytes) -> None:
    with pytest.raises(DataError, match="long-idx: the data has trailing bytes"):
        parse_idx(bytearray(content(folder, array) + more), "long-idx")


@given(array=images, place=st.integers(0, 2), value=st.integers(0, 255))
def test_another_magic_is_refused(folder: Path, array: np.ndarray, place: int, value: int) -> None:
    wrong = bytearray(content(folder, array))
    if wrong[place] == value:
        return
    wrong[place] = value
    with pytest.raises(DataError, match="wrong-idx: it starts with"):
        parse_idx(wrong, "wrong-idx")


@given(array=images, axis=st.integers(0, 3), size=st.integers(0, 2**32 - 1))
def test_another_shape_is_refused(folder: Path, array: np.ndarray, axis: int, size: int) -> None:
    axis %= array.ndim
    wrong = bytearray(content(folder, array))
    wrong[4 + 4 * axis : 8 + 4 * axis] = size.to_bytes(4, "big")
    elements = size * int(np.prod([side for place, side in enumerate(array.shape) if place != axis]))
    if elements == array.size:
        assert parse_idx(wrong, "same-idx").size == array.size
        return
    with pytest.raises(DataError, match="shape-idx"):
        parse_idx(wrong, "shape-idx")


@given(noise=st.binary(max_size=40), ndim=st.integers(0, 255))
def test_any_bytes_give_an_array_or_a_data_error(noise: bytes, ndim: int) -> None:
    for content in (noise, bytes([0, 0, 8, ndim]) + noise):
        try:
            array = parse_idx(bytearray(content), "noise-idx")
        except DataError as fault:
            described = str(fault)
        else:
            described = "noise-idx" if array.nbytes < len(content) else "more than there was"
        assert "noise-idx" in described


def test_only_bytes_are_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="int64"):
        write_idx(tmp_path / "a", np.zeros(3, np.int64))

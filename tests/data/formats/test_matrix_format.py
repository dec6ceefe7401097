from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from torchcaps.data.formats.matrix import ELEMENT_TYPES, parse_matrix, read_matrix, write_matrix
from torchcaps.errors import DataError

matrices = st.sampled_from(list(ELEMENT_TYPES.values())).flatmap(
    lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("norb")


def content(folder: Path, array: np.ndarray) -> bytes:
    write_matrix(folder / "a.mat", array)
    return (folder / "a.mat").read_bytes()


def outcome(read: Callable[[], np.ndarray]) -> tuple[np.ndarray | None, str]:
    try:
        return read(), ""
    except DataError as fault:
        return None, str(fault)


@given(array=matrices, suffix=st.sampled_from(["", ".gz"]))
def test_what_is_written_is_read(folder: Path, array: np.ndarray, suffix: str) -> None:
    path = folder / f"a.mat{suffix}"
    write_matrix(path, array)
    again = read_matrix(path)
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes()


@given(array=matrices, data=st.data())
def test_a_file_cut_anywhere_is_refused(folder: Path, array: np.ndarray, data: st.DataObject) -> None:
    whole = content(folder, array)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DataError, match=r"cut\.mat"):
        parse_matrix(bytearray(whole[:cut]), "cut.mat")


@given(array=matrices, more=st.binary(min_size=1, max_size=9))
def test_trailing_bytes_are_refused(folder: Path, array: np.ndarray, more: bytes) -> None:
    with pytest.raises(DataError, match=r"long\.mat"):
        parse_matrix(bytearray(content(folder, array) + more), "long.mat")


@given(array=matrices, magic=st.integers(0, 2**32 - 1).filter(lambda magic: magic not in ELEMENT_TYPES))
def test_another_magic_is_refused(folder: Path, array: np.ndarray, magic: int) -> None:
    wrong = struct.pack("<I", magic) + content(folder, array)[4:]
    with pytest.raises(DataError, match=r"wrong\.mat: magic number"):
        parse_matrix(bytearray(wrong), "wrong.mat")


@given(noise=st.binary(max_size=64), magic=st.sampled_from(list(ELEMENT_TYPES)))
def test_any_bytes_give_an_array_or_a_data_error(noise: bytes, magic: int) -> None:
    for content in (noise, struct.pack("<I", magic) + noise):
        array, fault = outcome(lambda content=content: parse_matrix(bytearray(content), "noise.mat"))
        assert "noise.mat" in fault if array is None else array.nbytes < len(content)


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_in_a_gzip_file_is_never_read_as_other_data(
    folder: Path, position: int, bit: int
) -> None:
    array = np.arange(600, dtype=np.int32).reshape(3, 200)
    path = folder / "flipped.mat.gz"
    write_matrix(path, array)
    packed = bytearray(path.read_bytes())
    packed[position % len(packed)] ^= 1 << bit
    path.write_bytes(packed)
    again, fault = outcome(lambda: read_matrix(path))
    if again is None:
        assert "flipped.mat.gz" in fault
    else:  # some bits of a gzip header mean nothing
        np.testing.assert_array_equal(again, array)


def test_the_layout_is_the_published_one(tmp_path: Path) -> None:
    path = tmp_path / "cat.mat"
    write_matrix(path, np.array([3, 1], dtype=np.int32))
    expected = bytes.fromhex("544c3d1e 01000000 02000000 01000000 01000000 03000000 01000000")
    assert path.read_bytes() == expected


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    write_matrix(path, np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="int64"):
        write_matrix(path, np.zeros(3, np.int64))
    assert read_matrix(path).tolist() == [0, 0, 0]
    assert [each.name for each in tmp_path.iterdir()] == ["a.mat"]


def test_big_endian_input_is_written_little_endian(tmp_path: Path) -> None:
    write_matrix(tmp_path / "a.mat", np.array([1, 2], dtype=">i4"))
    assert read_matrix(tmp_path / "a.mat").tolist() == [1, 2]


def test_gzip_output_is_reproducible(tmp_path: Path) -> None:
    for name in ("a.mat.gz", "b.mat.gz"):
        write_matrix(tmp_path / name, np.ones((2, 2), np.float32))
    assert (tmp_path / "a.mat.gz").read_bytes() == (tmp_path / "b.mat.gz").read_bytes()


@pytest.mark.parametrize("name", ["missing.mat", "missing.mat.gz"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=name):
        read_matrix(tmp_path / name)


def test_a_plain_file_called_gz_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.mat.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"a\.mat\.gz: the gzip data"):
        read_matrix(tmp_path / "a.mat.gz")
    (tmp_path / "b.mat.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match="too few"):
        read_matrix(tmp_path / "b.mat.gz")

"""Downloads, gzip files and archives that are larger than expected are refused before they fill anything."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.loopback import Web, serving
from torchcaps import _files
from torchcaps._files import read_bytes
from torchcaps.data.datasets.cifar10 import CIFAR10
from torchcaps.data.datasets.mnist import FASHION_MNIST, MNIST
from torchcaps.data.datasets.norb import SMALLNORB
from torchcaps.data.fetch import packages, suppliers
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.fetch.download import DownloadError, download
from torchcaps.data.fetch.packages import NpmPackage, plain_file
from torchcaps.data.fetch.suppliers import Mirror, SupplyError, Tarball, read_archive
from torchcaps.errors import DataError

CONTENT = b"the file" * 100
SHA256 = {"a.mat": hashlib.sha256(CONTENT).hexdigest()}
SIZES = {"a.mat": len(CONTENT)}
ZEROS = 64 << 20


@pytest.fixture
def web(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.delenv("TORCHCAPS_OFFLINE")
    with serving() as web:
        yield web


@pytest.fixture(scope="module")
def packed_zeros() -> bytes:
    """64 MiB in 64 kB."""
    return gzip.compress(bytes(ZEROS))


def archive(members: dict[str, int]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, size in members.items():
            member = tarfile.TarInfo(name)
            member.size = size
            tar.addfile(member, io.BytesIO(bytes(size)))
    return buffer.getvalue()


@pytest.mark.parametrize("chunked", [False, True])
def test_a_download_stops_at_its_limit(web: Web, tmp_path: Path, chunked: bool) -> None:
    web.files["a.bin"] = bytes(1 << 20)
    web.content_length = not chunked
    with pytest.raises(DownloadError, match="larger than the 1000 bytes"):
        download(f"{web.url}/a.bin", tmp_path / "a.bin", max_bytes=1000)
    assert not list(tmp_path.glob("*.bin"))
    assert not list(tmp_path.glob(".part*"))
    assert len(web.requests) == 1


def test_a_download_of_exactly_its_limit_is_complete(web: Web, tmp_path: Path) -> None:
    web.files["a.bin"] = bytes(1000)
    download(f"{web.url}/a.bin", tmp_path / "a.bin", max_bytes=1000)
    assert (tmp_path / "a.bin").stat().st_size == 1000


def test_a_resumed_download_is_limited_too(web: Web, tmp_path: Path) -> None:
    web.files["a.bin"] = bytes(3000)
    web.break_after = [900, 0]
    with pytest.raises(DownloadError, match="900 of 3000"):
        download(f"{web.url}/a.bin", tmp_path / "a.bin", max_bytes=3000)
    with pytest.raises(DownloadError, match="larger than the 1000 bytes"):
        download(f"{web.url}/a.bin", tmp_path / "a.bin", max_bytes=1000)
    assert not list(tmp_path.glob(".part*"))


def test_a_gzip_file_stops_before_it_fills_the_memory(tmp_path: Path, packed_zeros: bytes) -> None:
    file = tmp_path / "a.gz"
    file.write_bytes(packed_zeros)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a\.gz: it unpacks to more than 1000 bytes"):
            read_bytes(file, "0" * 64, max_bytes=1000)
        assert tracemalloc.get_traced_memory()[1] < ZEROS / 8
    finally:
        tracemalloc.stop()
    assert len(read_bytes(file, max_bytes=ZEROS)) == ZEROS


def test_a_gzip_file_has_a_limit_by_default(
    tmp_path: Path, packed_zeros: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_files, "MAX_BYTES", ZEROS - 1)
    (tmp_path / "a.gz").write_bytes(packed_zeros)
    with pytest.raises(DataError, match=r"unpacks to more than \d+ bytes.*unpack it by hand"):
        read_bytes(tmp_path / "a.gz")


def test_a_plain_file_is_limited_only_by_a_known_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(1001))
    assert len(read_bytes(tmp_path / "a")) == 1001
    with pytest.raises(DataError, match="it has 1001 bytes; at most 1000 were expected"):
        read_bytes(tmp_path / "a", max_bytes=1000)


def test_a_mirror_with_a_larger_file_is_refused(web: Web, cache: Path, packed_zeros: bytes) -> None:
    web.files["a.mat.gz"] = packed_zeros
    collection = Collection("set", SHA256, [Mirror(web.url)], sizes=SIZES)
    with pytest.raises(DataError, match=r"larger than the \d+ bytes"):
        collection.read(["a.mat"])
    web.files["a.mat.gz"] = gzip.compress(bytes(9000))
    with pytest.raises(DataError, match="unpacks to more than 800 bytes"):
        collection.read(["a.mat"])
    web.files["a.mat.gz"] = gzip.compress(CONTENT)
    assert collection.read(["a.mat"])[0].data == CONTENT


@pytest.mark.parametrize("level", [0, 9])
def test_a_file_that_gzip_cannot_shrink_is_within_the_limit(web: Web, cache: Path, level: int) -> None:
    noise = hashlib.shake_256(b"seed").digest(200_000)
    web.files["a.mat.gz"] = gzip.compress(noise, level)
    sha256 = {"a.mat": hashlib.sha256(noise).hexdigest()}
    collection = Collection("set", sha256, [Mirror(web.url)], sizes={"a.mat": len(noise)})
    assert collection.read(["a.mat"])[0].data == noise


def test_a_larger_file_of_the_users_is_refused(tmp_path: Path, cache: Path, packed_zeros: bytes) -> None:
    (tmp_path / "a.mat.gz").write_bytes(packed_zeros)
    with pytest.raises(DataError, match=r"a\.mat\.gz: it unpacks to more than 800 bytes"):
        Collection("set", SHA256, sizes=SIZES).read(["a.mat"], tmp_path)


def test_a_larger_member_of_an_archive_is_refused(web: Web, cache: Path) -> None:
    web.files["all.tar.gz"] = archive({"inside/a.mat": 9000})
    collection = Collection("set", SHA256, [Tarball(f"{web.url}/all.tar.gz", "inside")], sizes=SIZES)
    with pytest.raises(DataError, match=r"a\.mat has 9000 bytes; at most 800 were expected"):
        collection.read(["a.mat"])


def test_other_members_of_an_archive_are_limited_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "all.tar.gz").write_bytes(archive({"other": 9 << 20, "inside/a.mat": 800}))
    assert len(read_archive(tmp_path / "all.tar.gz", "inside", ["a.mat"])["a.mat"]) == 800
    monkeypatch.setattr(suppliers, "MAX_BYTES", 1 << 20)
    with pytest.raises(DataError, match=r"all\.tar\.gz: it unpacks to more than 1048576 bytes"):
        read_archive(tmp_path / "all.tar.gz", "inside", ["a.mat"])


def test_a_package_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "thing.tgz"
    file.write_bytes(archive({"package/a": 3000, "package/b": 3000}))
    packages.unpack_files(file, tmp_path / "out")
    assert (tmp_path / "out/package/b").stat().st_size == 3000
    monkeypatch.setattr(suppliers, "MAX_BYTES", 5000)
    with pytest.raises(SupplyError, match=r"thing\.tgz.*more than 5000 bytes"):
        packages.unpack_files(file, tmp_path / "other")


def test_a_file_of_a_package_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_PACKAGE_MIRRORS", "1")
    monkeypatch.setattr(
        packages, "run", lambda command, folder: Path(folder, "a.mat").write_bytes(bytes(900))
    )
    with pytest.raises(SupplyError, match=r"a\.mat.*900 bytes; at most 800 were expected"):
        NpmPackage("thing", plain_file(".")).supply(["a.mat"], SHA256, tmp_path, SIZES)


@pytest.mark.parametrize("collection", [MNIST, FASHION_MNIST, CIFAR10, SMALLNORB], ids=lambda c: c.folder)
def test_every_file_with_a_checksum_has_a_size(collection: Collection) -> None:
    assert set(collection.sizes) == set(collection.sha256)

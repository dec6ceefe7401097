"""Files without a published checksum: the first fetch records one, and a later change is noticed."""

from __future__ import annotations

import gzip
import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.loopback import Web, serving
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.fetch.suppliers import Mirror
from torchcaps.errors import DataError

FILES = {"a.mat": b"the first file", "b.mat": b"the second file"}


@pytest.fixture
def web(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.delenv("TORCHCAPS_OFFLINE")
    with serving() as web:
        web.files = {f"{name}.gz": gzip.compress(content) for name, content in FILES.items()}
        yield web


def unchecked(web: Web) -> Collection:
    return Collection("set", dict.fromkeys(FILES), [Mirror(web.url)])


def read(collection: Collection) -> list[bytes]:
    return [bytes(content.data) for content in collection.read(list(FILES))]


def test_a_fetch_says_once_that_nothing_can_be_compared(
    web: Web, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "torchcaps"):
        assert read(unchecked(web)) == list(FILES.values())
        assert read(unchecked(web)) == list(FILES.values())
    (message,) = (each for each in caplog.messages if not each.startswith("fetching "))
    for part in ("a.mat and 1 more", "no checksum was published", "gzip's own", str(cache / "set")):
        assert part in message


def test_checksums_are_recorded_beside_the_files(web: Web, cache: Path) -> None:
    read(unchecked(web))
    for name, content in FILES.items():
        recorded = (cache / "set" / f"{name}.sha256").read_text()
        assert recorded == f"{hashlib.sha256(content).hexdigest()}  {name}\n"


def test_files_with_a_published_checksum_are_not_recorded(
    web: Web, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sha256 = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    read(Collection("set", sha256, [Mirror(web.url)]))
    assert not list((cache / "set").glob("*.sha256"))
    assert all(message.startswith("fetching ") for message in caplog.messages)


def test_a_file_that_changed_on_disk_is_fetched_again(web: Web, cache: Path) -> None:
    read(unchecked(web))
    (cache / "set/a.mat.gz").write_bytes(gzip.compress(b"edited"))
    web.requests.clear()
    assert read(unchecked(web)) == list(FILES.values())
    assert [name for name, _ in web.requests] == ["a.mat.gz"]


def test_a_file_that_changed_on_disk_is_an_error_offline(
    web: Web, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(unchecked(web))
    (cache / "set/a.mat.gz").write_bytes(gzip.compress(b"edited"))
    monkeypatch.setenv("TORCHCAPS_OFFLINE", "1")
    with pytest.raises(DataError, match=r"not the one in .*a\.mat\.sha256"):
        read(unchecked(web))


def test_a_file_that_changed_on_the_server_is_named(web: Web, cache: Path) -> None:
    read(unchecked(web))
    (cache / "set/a.mat.gz").unlink()
    web.files["a.mat.gz"] = gzip.compress(b"another file")
    with pytest.raises(DataError, match=r"not the one in .*a\.mat\.sha256"):
        read(unchecked(web))
    (cache / "set/a.mat.sha256").unlink()
    assert read(unchecked(web)) == [b"another file", FILES["b.mat"]]


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_record_counts_as_none(web: Web, cache: Path, text: str) -> None:
    read(unchecked(web))
    (cache / "set/a.mat.sha256").write_text(text)
    assert read(unchecked(web)) == list(FILES.values())


def test_files_that_the_user_put_there_are_read_without_a_record(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (cache / "set").mkdir(parents=True)
    (cache / "set/a.mat").write_bytes(b"by hand")
    assert Collection("set", {"a.mat": None}).read(["a.mat"])[0].data == b"by hand"
    assert not caplog.messages

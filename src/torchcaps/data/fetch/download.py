from __future__ import annotations

import glob
import hashlib
import logging
import os
from collections.abc import Callable
from pathlib import Path

from torchcaps._files import MAX_BYTES
from torchcaps.data.progress import progress_bar

TIMEOUT_SECONDS = 6.0
_CHUNK = 1 << 18
LOGGER = logging.getLogger(__name__)


class DownloadError(OSError):
    """A download that failed; the message names the address and the reason."""


class _TooLargeError(Exception):
    """The server sends more than was expected."""


def download(
    url: str,
    target: Path,
    check: Callable[[Path], None] | None = None,
    timeout: float = TIMEOUT_SECONDS,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Download `url` to `target`, which is written only if the download is complete and correct.

    A partial download is kept in a `.part` file beside it, and a retry or a later call resumes it.

    Args:
        url: the address.
        target: the file to write.
        check: called with the complete `.part` file; raises `ValueError` if the content is wrong. A resumed
            download that fails the check is started again once.
        timeout: seconds without data after which the connection counts as broken.
        max_bytes: the largest file that is downloaded.

    Raises:
        DownloadError: the download failed, or the file is too large.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # Mirrors may compress the same data differently, so that each address has its own part. The suffix stays,
    # because the check unpacks by it.
    url_hash = hashlib.sha256(url.encode()).hexdigest()[:8]
    part = target.with_name(f".part-{url_hash}-{target.name}")
    resumed = part.exists() and part.stat().st_size > 0
    _fetch_with_retries(url, part, timeout, max_bytes)
    try:
        if check is not None:
            check(part)
    except ValueError as fault:
        part.unlink(missing_ok=True)
        if resumed:
            return download(url, target, check, timeout, max_bytes)
        raise DownloadError(f"{url}: {fault}") from fault
    os.replace(part, target)
    for other in target.parent.glob(f".part-????????-{glob.escape(target.name)}"):
        other.unlink(missing_ok=True)  # parts from mirrors that failed
    return None


def _fetch_with_retries(url: str, part: Path, timeout: float, max_bytes: int) -> None:
    """Resume after each broken connection, as long as the last attempt brought more bytes."""
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            return _fetch_rest(url, part, timeout, max_bytes)
        except DownloadError:
            after = part.stat().st_size if part.exists() else 0
            if after <= before:
                raise


def _fetch_rest(url: str, part: Path, timeout: float, max_bytes: int) -> None:
    import http.client
    import urllib.error
    import urllib.request

    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "torchcaps"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            if response.status != 206:
                have = 0  # the server sends everything from the start
            length = response.headers.get("Content-Length")
            total = have + int(length) if length else None
            if total is not None and total > max_bytes:
                raise _TooLargeError
            size = "size unknown" if total is None else f"{total / 1e6:.1f} MB"
            # Python shows a warning without any setup of logging: nobody should fetch this much unknowingly.
            LOGGER.warning(f"fetching {url} ({size}) into {part.parent}")
            name = part.name.split("-", 2)[-1]
            with (
                open(part, "ab" if have else "wb") as file,
                progress_bar(name, total, completed=have, in_bytes=True) as advance,
            ):
                while chunk := response.read(_CHUNK):
                    have += len(chunk)
                    if have > max_bytes:
                        raise _TooLargeError
                    file.write(chunk)
                    advance(len(chunk))
    except _TooLargeError as fault:
        part.unlink(missing_ok=True)
        raise DownloadError(
            f"{url}: the file is larger than the {max_bytes} bytes that were expected at most"
        ) from fault
    except urllib.error.HTTPError as fault:
        if fault.code == 416:  # the part is longer than the file
            part.unlink(missing_ok=True)
            return _fetch_rest(url, part, timeout, max_bytes)
        raise DownloadError(f"{url}: HTTP {fault.code} {fault.reason}") from fault
    except (OSError, http.client.HTTPException, ValueError) as fault:
        reason = getattr(fault, "reason", None) or fault
        raise DownloadError(f"{url}: {reason or type(fault).__name__}") from fault
    if total is not None and have != total:
        raise DownloadError(f"{url}: the connection ended after {have} of {total} bytes")
    return None

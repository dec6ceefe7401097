"""One writer for each run's folder: a lock file that informs, and a lock of the kernel that decides."""

from __future__ import annotations

import json
import os
import socket
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from torchcaps.errors import RunError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# What stands for the owner of a file that says nothing, as one has in the moment after it was created.
UNKNOWN: dict[str, Any] = {"pid": "?", "host": "?", "since": "?"}


class RunLock:
    """The right to write into a run's folder, from now until `release` or the end of this process.

    The kernel releases a lock by `flock` when its process ends, in whatever way, so that a run can be resumed
    at once after `kill -9`. The file names the owner for the message that another process gets. Where there
    is no `flock` (Windows, some network file systems), the file alone is the lock, and a new process takes it
    over if the owner's process is gone.

    A file from another host is never taken over: not every network file system shares its locks, and nobody
    here can see whether that process still runs.

    Args:
        folder: of the run; it must exist.

    Raises:
        RunError: another process writes into the folder, or a lock from another host is left in it.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     lock = RunLock(folder)
        ...     held = os.listdir(folder)
        ...     lock.release()
        ...     held, os.listdir(folder)
        (['run.lock'], [])
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "run.lock"
        self.file = self._open()
        _held.add(self)
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": since}
        try:
            os.ftruncate(self.file, 0)
            os.write(self.file, json.dumps(owner).encode())
        except OSError:
            self.release()
            raise

    def _open(self) -> int:
        while True:
            with suppress(FileExistsError):
                file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
                if self._claimed(file):
                    return file
            if fcntl is None:
                self._remove_leftover()
                continue
            with suppress(FileNotFoundError):  # its owner has just released it
                file = os.open(self.path, os.O_RDWR)
                if self._claimed(file, leftover=True):
                    return file

    def _claimed(self, file: int, leftover: bool = False) -> bool:
        """Lock the open file; `False` if it is no longer the one in the folder and must be opened again."""
        try:
            locked = _flock(file)
            owner = self._owner()
            if locked is False:
                raise RunError(self._in_use(owner))
            if leftover:
                self._check_host(owner)
            if leftover and locked is None:
                self._remove_leftover()
            if os.path.samestat(os.fstat(file), os.stat(self.path)):
                return True
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)
        return False

    def _remove_leftover(self) -> None:
        """Delete the file of a process of this host that has ended; used where there is no `flock`."""
        owner = self._owner()
        self._check_host(owner)
        if os.name != "nt" and _is_running(owner["pid"]):
            raise RunError(self._in_use(owner))
        try:
            self.path.unlink(missing_ok=True)
        except PermissionError:
            # Windows deletes no file that a process has open.
            raise RunError(self._in_use(owner)) from None

    def _in_use(self, owner: dict[str, Any]) -> str:
        return (
            f"{self.path.parent} is in use by process {owner['pid']} on {owner['host']}, which has been "
            f"writing to it since {owner['since']}: wait for it to end, or give another folder (--out)"
        )

    def _check_host(self, owner: dict[str, Any]) -> None:
        if owner["host"] not in (UNKNOWN["host"], socket.gethostname()):
            raise RunError(
                f"{self.path.parent} is locked by process {owner['pid']} on another host, {owner['host']}, "
                f"since {owner['since']}: if that process no longer runs, delete {self.path} and start again"
            )

    def _owner(self) -> dict[str, Any]:
        """What the file says about its owner."""
        try:
            table = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return UNKNOWN
        return UNKNOWN | table if isinstance(table, dict) else UNKNOWN

    def release(self) -> None:
        """Remove the file and let others write; a second call does nothing."""
        if self.file < 0:
            return
        file, self.file = self.file, -1
        _held.discard(self)
        if fcntl is None:
            os.close(file)  # Windows deletes no open file; elsewhere the lock must outlive the file
        with suppress(OSError):
            self.path.unlink()
        if fcntl is not None:
            os.close(file)


def is_written(folder: str | Path) -> bool:
    """Whether a process writes into a run's folder; nothing is locked to find out.

    A process of another host counts as one that runs, since nobody here can see it.

    >>> is_written("no-such-folder")
    False
    """
    path = Path(folder) / "run.lock"
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
        pid, host = owner["pid"], owner["host"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return path.is_file()
    return host != socket.gethostname() or _is_running(pid)


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()


def _flock(file: int) -> bool | None:
    """Whether the kernel gave the lock; `None` where it has no such locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_running(pid: object) -> bool:
    """Whether a process of this host exists; also true of something that is no process number."""
    if not isinstance(pid, int) or pid < 1:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it exists, and belongs to another user
        pass
    return True


def _close_in_child() -> None:
    """Forked processes share the lock: data workers that outlive a killed run would keep it locked."""
    for lock in list(_held):
        os.close(lock.file)
        lock.file = -1
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)

"""A single worker thread for all inference."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import torch

MAX_WAITING = 256


class SupersededError(Exception):
    """A newer job with the same key replaced this one before it started."""


class BusyError(Exception):
    """Too many jobs are waiting."""


class Worker:
    """One thread that runs all inference, so that outdated requests do not delay new ones.

    Of the waiting jobs with the same key only the newest runs; the older ones fail with `SupersededError`.
    The newest takes the position of the job that it replaces, so a constant stream of requests cannot
    starve it.

    Args:
        max_waiting: number of waiting jobs above which `submit` raises `BusyError`.

    Example:
        >>> worker = Worker()
        >>> worker.submit(("a session", "/api/draw"), lambda: 6 * 7).result()
        42
        >>> worker.close()
    """

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self.max_waiting = max_waiting
        self._waiting: OrderedDict[Hashable, tuple[Future, Callable[[], Any]]] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, key: Hashable | None, job: Callable[[], Any]) -> Future:
        """Queue a job; it replaces a waiting job with the same key, unless the key is `None`."""
        future: Future = Future()
        slot: Hashable = future if key is None else key
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lab", daemon=True)
                self._thread.start()
            older = self._waiting.get(slot)
            if older is None and len(self._waiting) >= self.max_waiting:
                raise BusyError
            self._waiting[slot] = (future, job)
            self._changed.notify()
        if older is not None and older[0].set_running_or_notify_cancel():
            older[0].set_exception(SupersededError())
        return future

    def remove(self, future: Future) -> None:
        """Cancel a job whose result nobody needs, and free its place in the queue; a running job finishes."""
        future.cancel()
        with self._changed:
            for slot, (waiting, _) in self._waiting.items():
                if waiting is future:
                    del self._waiting[slot]
                    return

    def waiting(self) -> int:
        """Number of jobs that have not started."""
        with self._changed:
            return len(self._waiting)

    def close(self) -> None:
        """Finish the current job, cancel the waiting ones and stop the thread; `submit` starts a new one."""
        with self._changed:
            thread, self._thread = self._thread, None
            canceled = list(self._waiting.values())
            self._waiting.clear()
            self._changed.notify()
        for future, _ in canceled:
            future.cancel()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        # A batch of one image is too little work for several threads: on two cores a second thread is slower,
        # and much slower while another process uses that core.
        torch.set_num_threads(1)
        while True:
            with self._changed:
                this_thread = threading.current_thread()
                while not self._waiting and self._thread is this_thread:
                    self._changed.wait()
                if self._thread is not this_thread:
                    return
                _, (future, job) = self._waiting.popitem(last=False)
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(job())
            except BaseException as error:
                future.set_exception(error)

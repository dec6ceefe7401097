from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

import torch

MOST_WAITING = 256


class SupersededError(Exception):
    """A newer request of the same kind came while this one was waiting."""


class BusyError(Exception):
    """More requests are waiting than anybody would wait for."""


class Worker:
    """One thread for all inference, so that drawing is never slowed by a queue of old strokes.

    Of the jobs with the same key that wait, only the newest is done; the older ones end in `SupersededError`.
    It takes their place in the queue, so a hand that never rests is still served.

    Args:
        most_waiting: jobs beyond which the next is refused with `BusyError`.

    Example:
        >>> worker = Worker()
        >>> worker.submit(("a session", "/api/draw"), lambda: 6 * 7).result()
        42
        >>> worker.close()
    """

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self.most_waiting = most_waiting
        self._waiting: OrderedDict[Hashable, tuple[Future, Callable[[], Any]]] = OrderedDict()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def submit(self, key: Hashable | None, work: Callable[[], Any]) -> Future:
        """Queue `work`, in place of what waits under the same key; without a key nothing gives way."""
        future: Future = Future()
        place: Hashable = future if key is None else key
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lab", daemon=True)
                self._thread.start()
            older = self._waiting.get(place)
            if older is None and len(self._waiting) >= self.most_waiting:
                raise BusyError
            self._waiting[place] = (future, work)
            self._changed.notify()
        if older is not None and older[0].set_running_or_notify_cancel():
            older[0].set_exception(SupersededError())
        return future

    def waiting(self) -> int:
        """How many jobs have not begun."""
        with self._changed:
            return len(self._waiting)

    def close(self) -> None:
        """Finish the job under way, drop the others, end the thread; a later job would start another."""
        with self._changed:
            thread, self._thread = self._thread, None
            dropped = list(self._waiting.values())
            self._waiting.clear()
            self._changed.notify()
        for future, _ in dropped:
            future.cancel()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        # One image is too little work to share: on two cores a second thread costs more than it brings, and
        # many times more when another program wants that core.
        torch.set_num_threads(1)
        while True:
            with self._changed:
                mine = threading.current_thread()
                while not self._waiting and self._thread is mine:
                    self._changed.wait()
                if self._thread is not mine:
                    return
                _, (future, work) = self._waiting.popitem(last=False)
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as fault:
                future.set_exception(fault)

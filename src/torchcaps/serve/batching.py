"""Joining of concurrent requests into batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps._checks import check_count, check_number


class QueueFullError(Exception):
    """There is no room for the images in the queue.

    Attributes:
        seconds: how long the images that wait now will probably take.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__("the queue is full")
        self.seconds = seconds


class Statistics(NamedTuple):
    """What a batcher has done so far.

    Attributes:
        images: images that were classified.
        batches: batches that these formed.
        largest_batch: images in the largest of them.
        waiting: images in the queue.
    """

    images: int
    batches: int
    largest_batch: int
    waiting: int


@dataclass
class _Item:
    image: Tensor
    future: Future[Any]
    arrived: float


class Batcher:
    """One thread that runs a function on batches of images, taken from a queue.

    A batch starts when it is full, or when its oldest image has waited for `max_wait` seconds. While a batch
    is computed, the images of the next ones gather in the queue; so under load batches grow by themselves and
    nobody waits for `max_wait`.

    Args:
        run: maps images `[B, C, H, W]` to B results.
        max_batch: images in a batch, at most.
        max_wait: seconds that an image waits for others, at most.
        max_queue: number of waiting images above which `submit` raises `QueueFullError`.

    Example:
        >>> batcher = Batcher(lambda images: images.sum((1, 2, 3)).tolist())
        >>> batcher.start()
        >>> [future.result() for future in batcher.submit([torch.ones(1, 2, 2), torch.zeros(1, 2, 2)])]
        [4.0, 0.0]
        >>> batcher.close()
    """

    def __init__(
        self,
        run: Callable[[Tensor], Sequence[Any]],
        *,
        max_batch: int = 32,
        max_wait: float = 0.005,
        max_queue: int = 128,
    ) -> None:
        self._run = run
        self.max_batch = check_count("max_batch", max_batch)
        self.max_wait = check_number("max_wait", max_wait)
        self.max_queue = check_count("max_queue", max_queue)
        self._queue: deque[_Item] = deque()
        self._changed = threading.Condition()
        self.closed = True
        self._images = self._batches = self._largest = 0
        self._seconds_per_image = 0.01  # until the first batch was measured
        self._thread = threading.Thread()

    def start(self) -> None:
        """Start the thread; before this and after `close`, nothing can be submitted."""
        self.closed = False
        self._thread = threading.Thread(target=self._work, name="batches", daemon=True)
        self._thread.start()

    def submit(self, images: Sequence[Tensor]) -> list[Future[Any]]:
        """Queue images of one shape, all or none; returns one future for each.

        Raises:
            QueueFullError: there are not enough places for all of them.
        """
        arrived = time.monotonic()
        items = [_Item(image, Future(), arrived) for image in images]
        with self._changed:
            if self.closed:
                raise RuntimeError("the batcher is closed: call start() first")
            if len(self._queue) + len(items) > self.max_queue:
                raise QueueFullError(len(self._queue) * self._seconds_per_image)
            self._queue.extend(items)
            self._changed.notify()
        return [item.future for item in items]

    def remove(self, futures: Sequence[Future[Any]]) -> None:
        """Take images whose results nobody needs out of the queue; a batch that has started is finished."""
        unwanted = {id(future) for future in futures}
        for future in futures:
            future.cancel()
        with self._changed:
            self._queue = deque(item for item in self._queue if id(item.future) not in unwanted)

    def statistics(self) -> Statistics:
        """What was done so far."""
        with self._changed:
            return Statistics(self._images, self._batches, self._largest, len(self._queue))

    def is_alive(self) -> bool:
        """Whether images are still taken from the queue."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish the batch that has started, cancel what waits, and stop the thread."""
        with self._changed:
            self.closed = True
            canceled = list(self._queue)
            self._queue.clear()
            self._changed.notify()
        for item in canceled:
            item.future.cancel()
        if self.is_alive():
            self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            started = [item for item in batch if item.future.set_running_or_notify_cancel()]
            if not started:
                continue
            start = time.monotonic()
            try:
                results = self._run(torch.stack([item.image for item in started]))
                for item, result in zip(started, results, strict=True):
                    item.future.set_result(result)
            except Exception as error:
                for item in started:
                    if not item.future.done():
                        item.future.set_exception(error)
            with self._changed:
                self._seconds_per_image = (time.monotonic() - start) / len(started)
                self._images += len(started)
                self._batches += 1
                self._largest = max(self._largest, len(started))

    def _next_batch(self) -> list[_Item]:
        """Wait for the next batch; an empty one means that the batcher is closed."""
        with self._changed:
            while not self.closed:
                if not self._queue:
                    self._changed.wait()
                    continue
                left = self._queue[0].arrived + self.max_wait - time.monotonic()
                if left <= 0 or len(self._queue) >= self.max_batch:
                    return [self._queue.popleft() for _ in range(min(self.max_batch, len(self._queue)))]
                self._changed.wait(left)
            return []

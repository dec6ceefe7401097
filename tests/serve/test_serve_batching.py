"""Images are joined into batches; the order is controlled by events, not by the clock."""

import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest
import torch
from torch import Tensor

from torchcaps.serve.batching import Batcher, QueueFullError

TIMEOUT = 30


def started(*arguments: Any, **options: Any) -> Batcher:
    batcher = Batcher(*arguments, **options)
    batcher.start()
    return batcher


class Recorder:
    """Doubles each image's value and records the sizes of batches; `release` lets the first one end."""

    def __init__(self, blocked: bool = True) -> None:
        self.sizes: list[int] = []
        self.started, self.release = threading.Event(), threading.Event()
        if not blocked:
            self.release.set()

    def __call__(self, images: Tensor) -> list[float]:
        self.sizes.append(len(images))
        self.started.set()
        assert self.release.wait(TIMEOUT)
        return (2 * images.flatten(1)[:, 0]).tolist()


def image(value: float) -> Tensor:
    return torch.full((1, 2, 2), value)


def test_images_that_arrive_during_a_batch_form_the_next_ones() -> None:
    recorder = Recorder()
    batcher = started(recorder, max_batch=4, max_wait=0)
    first = batcher.submit([image(0)])
    assert recorder.started.wait(TIMEOUT)
    others = [batcher.submit([image(value)])[0] for value in range(1, 7)]
    assert batcher.statistics().waiting == 6
    recorder.release.set()
    assert [future.result(TIMEOUT) for future in [*first, *others]] == [0, 2, 4, 6, 8, 10, 12]
    batcher.close()
    assert recorder.sizes == [1, 4, 2]
    assert batcher.statistics() == (7, 3, 4, 0)


def test_a_full_batch_does_not_wait() -> None:
    batcher = started(Recorder(blocked=False), max_batch=3, max_wait=10_000)
    futures = batcher.submit([image(value) for value in range(3)])
    assert [future.result(TIMEOUT) for future in futures] == [0, 2, 4]
    batcher.close()


def test_an_image_alone_waits_no_longer_than_max_wait() -> None:
    batcher = started(Recorder(blocked=False), max_batch=1000, max_wait=0.05)
    assert batcher.submit([image(3)])[0].result(TIMEOUT) == 6
    batcher.close()


def test_a_queue_takes_all_images_of_a_request_or_none() -> None:
    recorder = Recorder()
    batcher = started(recorder, max_batch=8, max_wait=0, max_queue=3)
    batcher.submit([image(0)])
    assert recorder.started.wait(TIMEOUT)
    batcher.submit([image(1), image(2)])
    with pytest.raises(QueueFullError) as full:
        batcher.submit([image(3), image(4)])
    assert full.value.seconds > 0
    assert batcher.statistics().waiting == 2
    batcher.submit([image(3)])
    recorder.release.set()
    batcher.close()


def test_removed_images_are_not_computed() -> None:
    recorder = Recorder()
    batcher = started(recorder, max_wait=0)
    batcher.submit([image(0)])
    assert recorder.started.wait(TIMEOUT)
    unwanted, wanted = batcher.submit([image(1), image(2)]), batcher.submit([image(3)])
    batcher.remove(unwanted)
    assert batcher.statistics().waiting == 1, "their places are free"
    recorder.release.set()
    assert wanted[0].result(TIMEOUT) == 6
    assert all(future.cancelled() for future in unwanted)
    batcher.close()
    assert recorder.sizes == [1, 1]


def test_an_error_reaches_every_image_of_its_batch_and_the_thread_goes_on() -> None:
    def fail_on_negative(images: Tensor) -> list[float]:
        if (images < 0).any():
            raise ZeroDivisionError
        return images.flatten(1)[:, 0].tolist()

    batcher = started(fail_on_negative, max_batch=2, max_wait=1)
    for future in batcher.submit([image(1), image(-1)]):
        with pytest.raises(ZeroDivisionError):
            future.result(TIMEOUT)
    assert [f.result(TIMEOUT) for f in batcher.submit([image(1), image(2)])] == [1, 2]
    assert batcher.is_alive()
    batcher.close()
    assert not batcher.is_alive()


def test_too_few_results_are_an_error() -> None:
    batcher = started(lambda images: [1.0], max_batch=2, max_wait=1)
    _, second = batcher.submit([image(1), image(2)])
    with pytest.raises(ValueError):
        second.result(TIMEOUT)
    batcher.close()


def test_close_cancels_what_waits() -> None:
    recorder = Recorder()
    batcher = started(recorder, max_wait=0)
    running = batcher.submit([image(1)])
    assert recorder.started.wait(TIMEOUT)
    waiting = batcher.submit([image(2)])
    closing = threading.Thread(target=batcher.close)
    closing.start()
    with pytest.raises(CancelledError):
        waiting[0].result(TIMEOUT)
    recorder.release.set()
    closing.join(TIMEOUT)
    assert running[0].result(TIMEOUT) == 2
    with pytest.raises(RuntimeError, match="closed"):
        batcher.submit([image(1)])
    batcher.start()
    assert batcher.submit([image(3)])[0].result(TIMEOUT) == 6, "it can be started again"
    batcher.close()


def test_many_threads_get_their_own_results() -> None:
    batcher = started(Recorder(blocked=False), max_batch=5, max_wait=0.001, max_queue=1000)
    results: dict[int, float] = {}

    def send(number: int) -> None:
        for value in range(number, 200, 8):
            results[value] = batcher.submit([image(value)])[0].result(TIMEOUT)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    batcher.close()
    assert results == {value: 2.0 * value for value in range(200)}
    assert batcher.statistics().images == 200


@pytest.mark.parametrize("options", [{"max_batch": 0}, {"max_wait": -1}, {"max_queue": 0}])
def test_limits_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Batcher(lambda images: [], **options)

"""The newest request replaces older ones; the order is controlled by events, not by the clock."""

import queue
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.server import create_app
from torchcaps.lab.worker import BusyError, SupersededError, Worker

TIMEOUT = 30


class Blocker:
    """A job that keeps the worker busy until `release` is set."""

    def __init__(self, worker: Worker) -> None:
        self.release, started = threading.Event(), threading.Event()

        def block() -> None:
            started.set()
            self.release.wait(TIMEOUT)

        worker.submit(None, block)
        assert started.wait(TIMEOUT)


def test_the_newest_job_of_a_key_runs_at_the_position_of_the_oldest() -> None:
    worker, finished = Worker(), []
    blocker = Blocker(worker)
    first = worker.submit("draw", lambda: finished.append("first"))
    other = worker.submit("votes", lambda: finished.append("other"))
    second = worker.submit("draw", lambda: finished.append("second"))
    third = worker.submit("draw", lambda: finished.append("third"))
    assert worker.waiting() == 2
    for old in (first, second):
        with pytest.raises(SupersededError):
            old.result(TIMEOUT)
    blocker.release.set()
    third.result(TIMEOUT)
    other.result(TIMEOUT)
    assert finished == ["third", "other"]
    worker.close()


def test_jobs_without_a_key_all_run() -> None:
    worker = Worker()
    blocker = Blocker(worker)
    jobs = [worker.submit(None, lambda n=n: n) for n in range(5)]
    blocker.release.set()
    assert [job.result(TIMEOUT) for job in jobs] == list(range(5))
    worker.close()


def test_a_running_job_is_not_superseded() -> None:
    worker = Worker()
    release, started = threading.Event(), threading.Event()

    def slow() -> str:
        started.set()
        release.wait(TIMEOUT)
        return "finished"

    running = worker.submit("draw", slow)
    assert started.wait(TIMEOUT)
    newer = worker.submit("draw", lambda: "newer")
    release.set()
    assert running.result(TIMEOUT) == "finished"
    assert newer.result(TIMEOUT) == "newer"
    worker.close()


def test_an_exception_does_not_stop_the_thread() -> None:
    worker = Worker()
    with pytest.raises(ZeroDivisionError):
        worker.submit("draw", lambda: 1 / 0).result(TIMEOUT)
    assert worker.submit("draw", lambda: 1).result(TIMEOUT) == 1
    worker.close()


def test_a_full_queue_raises() -> None:
    worker = Worker(max_waiting=2)
    blocker = Blocker(worker)
    worker.submit("a", lambda: None)
    worker.submit("b", lambda: None)
    with pytest.raises(BusyError):
        worker.submit("c", lambda: None)
    worker.submit("b", lambda: None)  # replaces a waiting job, so the queue does not grow
    blocker.release.set()
    worker.close()


def test_close_cancels_waiting_jobs_and_stops_the_thread() -> None:
    worker = Worker()
    blocker = Blocker(worker)
    waiting = worker.submit("draw", lambda: 1)
    thread = worker._thread
    assert thread is not None
    closing = threading.Thread(target=worker.close)
    closing.start()
    with pytest.raises(CancelledError):
        waiting.result(TIMEOUT)
    blocker.release.set()
    closing.join(TIMEOUT)
    assert not thread.is_alive()
    assert worker.submit("draw", lambda: 2).result(TIMEOUT) == 2, "a later job starts a new thread"
    worker.close()


@pytest.mark.parametrize(("sessions", "statuses"), [("aaa", [409, 409, 200]), ("aba", [409, 200, 200])])
def test_older_requests_of_a_session_return_409(
    store: ModelStore, sessions: str, statuses: list[int]
) -> None:
    app = create_app(store)
    worker, queued = app.state.worker, queue.Queue()
    submit = worker.submit

    def submit_and_report(*arguments: Any) -> Future:
        future = submit(*arguments)
        queued.put(future)
        return future

    body = {"pose": [0.1] * 16, "target": 3}
    with TestClient(app) as client, ThreadPoolExecutor(3) as pool:
        blocker = Blocker(worker)
        worker.submit = submit_and_report
        pending = []
        for session in sessions:
            pending.append(pool.submit(client.post, "/api/tweak", json=body, headers={"X-Session": session}))
            queued.get(timeout=TIMEOUT)  # each request is queued before the next is sent
        blocker.release.set()
        responses = [request.result(TIMEOUT) for request in pending]
    assert [response.status_code for response in responses] == statuses
    assert responses[0].json() == {"detail": "superseded by a newer request"}

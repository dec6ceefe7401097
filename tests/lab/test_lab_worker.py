"""The newest request wins, and what cannot be done is told; order is kept by events, not by the clock."""

import queue
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient

from torchcaps.lab.server import create_app
from torchcaps.lab.weights import Shelf
from torchcaps.lab.worker import BusyError, SupersededError, Worker

PATIENCE = 30


class Held:
    """A worker whose thread is kept busy until it is let go."""

    def __init__(self, worker: Worker) -> None:
        self.go, begun = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            self.go.wait(PATIENCE)

        worker.submit(None, hold)
        assert begun.wait(PATIENCE)


def test_the_newest_of_a_key_wins_and_keeps_the_place() -> None:
    worker, done = Worker(), []
    held = Held(worker)
    first = worker.submit("draw", lambda: done.append("first"))
    other = worker.submit("votes", lambda: done.append("other"))
    second = worker.submit("draw", lambda: done.append("second"))
    third = worker.submit("draw", lambda: done.append("third"))
    assert worker.waiting() == 2
    for old in (first, second):
        with pytest.raises(SupersededError):
            old.result(PATIENCE)
    held.go.set()
    third.result(PATIENCE)
    other.result(PATIENCE)
    assert done == ["third", "other"]
    worker.close()


def test_without_a_key_nothing_gives_way() -> None:
    worker = Worker()
    held = Held(worker)
    jobs = [worker.submit(None, lambda n=n: n) for n in range(5)]
    held.go.set()
    assert [job.result(PATIENCE) for job in jobs] == list(range(5))
    worker.close()


def test_a_job_under_way_is_finished() -> None:
    worker = Worker()
    go, begun = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        go.wait(PATIENCE)
        return "finished"

    running = worker.submit("draw", slow)
    assert begun.wait(PATIENCE)
    newer = worker.submit("draw", lambda: "newer")
    go.set()
    assert running.result(PATIENCE) == "finished"
    assert newer.result(PATIENCE) == "newer"
    worker.close()


def test_faults_come_out_and_the_thread_goes_on() -> None:
    worker = Worker()
    with pytest.raises(ZeroDivisionError):
        worker.submit("draw", lambda: 1 / 0).result(PATIENCE)
    assert worker.submit("draw", lambda: 1).result(PATIENCE) == 1
    worker.close()


def test_a_full_queue_refuses() -> None:
    worker = Worker(most_waiting=2)
    held = Held(worker)
    worker.submit("a", lambda: None)
    worker.submit("b", lambda: None)
    with pytest.raises(BusyError):
        worker.submit("c", lambda: None)
    worker.submit("b", lambda: None)  # takes the place of another, so there is room
    held.go.set()
    worker.close()


def test_closing_drops_what_waits_and_ends_the_thread() -> None:
    worker = Worker()
    held = Held(worker)
    waiting = worker.submit("draw", lambda: 1)
    thread = worker._thread
    assert thread is not None
    closing = threading.Thread(target=worker.close)
    closing.start()
    with pytest.raises(CancelledError):
        waiting.result(PATIENCE)
    held.go.set()
    closing.join(PATIENCE)
    assert not thread.is_alive()
    assert worker.submit("draw", lambda: 2).result(PATIENCE) == 2, "a later job starts another thread"
    worker.close()


@pytest.mark.parametrize(("sessions", "statuses"), [("aaa", [409, 409, 200]), ("aba", [409, 200, 200])])
def test_an_older_request_of_the_session_is_answered_409(
    shelf: Shelf, sessions: str, statuses: list[int]
) -> None:
    app = create_app(shelf)
    worker, queued = app.state.worker, queue.Queue()
    submit = worker.submit

    def noted(*given: Any) -> Future:
        future = submit(*given)
        queued.put(future)
        return future

    body = {"pose": [0.1] * 16, "target": 3}
    with TestClient(app) as client, ThreadPoolExecutor(3) as pool:
        held = Held(worker)
        worker.submit = noted
        answers = []
        for session in sessions:
            answers.append(pool.submit(client.post, "/api/tweak", json=body, headers={"X-Session": session}))
            queued.get(timeout=PATIENCE)  # each is in the queue before the next is sent
        held.go.set()
        said = [answer.result(PATIENCE) for answer in answers]
    assert [each.status_code for each in said] == statuses
    assert said[0].json() == {"detail": "superseded by a newer request"}


def test_a_full_queue_is_told_from_missing_weights(shelf: Shelf) -> None:
    app = create_app(shelf)
    with TestClient(app) as client:
        app.state.worker.most_waiting = 0
        said = client.post("/api/tweak", json={"pose": [0.1] * 16, "target": 3})
    assert said.status_code == 429
    assert "try again" in said.json()["detail"]

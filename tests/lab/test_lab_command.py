"""`torchcaps lab` from the outside: starts soon, stops cleanly, says what is in the way."""

import errno
import json
import logging
import os
import signal
import socket
import sys
import time
import urllib.request
from asyncio import CancelledError

import pytest
import typer
from lab_models import CARDS
from lab_process import lab_process
from typer.testing import CliRunner

from torchcaps.cli import lab as command
from torchcaps.cli.app import app
from torchcaps.lab.weights import NEEDED

RUNNER = CliRunner()


def test_it_starts_answers_and_stops_on_ctrl_c() -> None:
    with lab_process() as (process, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/status", timeout=30) as answer:
            assert len(json.load(answer)["models"]) == len(NEEDED)
        # A connection left open, as a browser does, must not keep the server alive.
        with socket.create_connection(("127.0.0.1", port), timeout=30) as open_connection:
            open_connection.sendall(b"GET /api/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert open_connection.recv(100).startswith(b"HTTP/1.1 200")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert "stopped" in out
        assert "Traceback" not in err


@pytest.mark.slow
def test_it_starts_within_five_seconds() -> None:
    begun = time.monotonic()
    with lab_process() as (_, port):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30).close()
        assert time.monotonic() - begun < 5


def test_a_taken_port_is_named_with_the_next_free_one() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        said = RUNNER.invoke(app, ["lab", "--port", str(taken)])
    assert said.exit_code == 1
    assert f"port {taken} is taken" in said.output
    free = int(said.output.rsplit("--port ", 1)[1])
    assert taken < free <= taken + 100


@pytest.mark.parametrize("agreed", [True, False])
def test_a_person_is_asked_whether_to_take_the_next_port(
    agreed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda question, default: asked.append(question) or agreed)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        if agreed:
            with command.listen("127.0.0.1", taken) as listener:
                assert listener.getsockname()[1] > taken
        else:
            with pytest.raises(typer.Exit):
                command.listen("127.0.0.1", taken)
    assert f"Port {taken} is taken" in asked[0]


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ValueError, match="--host"):
        command.listen("no.such.host.invalid", 0)
    with pytest.raises(OSError, match="cannot listen"):
        command.listen("192.0.2.1", 8765)  # an address kept for documentation


def test_opening_it_to_others_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    import torchcaps.lab.server

    class Started(Exception):  # noqa: N818
        pass

    def start(hosts: set[str] | None) -> None:
        assert (hosts is None) is (host == "0.0.0.0"), "to others it answers by whatever name they know"
        raise Started

    monkeypatch.setattr(torchcaps.lab.server, "create_app", start)
    for host, warned in [("0.0.0.0", True), ("127.0.0.1", False), ("localhost", False)]:
        said = RUNNER.invoke(app, ["lab", "--port", "0", "--host", host])
        assert isinstance(said.exception, Started)
        assert ("warning" in said.output) is warned


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_without_the_extra_it_says_how_to_get_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    said = RUNNER.invoke(app, ["lab"])
    assert said.exit_code == 1
    assert "pip install 'torchcaps[lab]'" in said.output


def test_the_networks_of_the_tests_are_those_of_the_lab() -> None:
    assert set(CARDS) == set(NEEDED)


def test_help_names_examples() -> None:
    said = RUNNER.invoke(app, ["lab", "--help"], env={**os.environ, "COLUMNS": "120"})
    assert "torchcaps lab --port 9000" in said.output


def test_only_a_taken_port_is_called_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(host: str, port: int) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(command, "bound", forbidden)
    with pytest.raises(OSError, match="port 80: Permission denied"):
        command.listen("127.0.0.1", 80)


@pytest.mark.parametrize(
    ("message", "error", "news"),
    [
        ("Exception in ASGI application", CancelledError(), False),
        ("Cancel 40 running task(s), timeout graceful shutdown exceeded", None, False),
        ("Exception in ASGI application", RuntimeError(), True),
    ],
)
def test_requests_cut_off_by_stopping_are_no_news(
    message: str, error: BaseException | None, news: bool
) -> None:
    told = None if error is None else (type(error), error, None)
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, message, None, told)
    assert command.is_news(record) is news

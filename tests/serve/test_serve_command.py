"""The command `torchcaps serve`, and the Dockerfile that starts it."""

import json
import re
import signal
import socket
import sys
import urllib.request
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from support.serve_process import serve_process
from torchcaps._files import digest
from torchcaps.cli.app import app
from torchcaps.models import pretrained_path

ROOT = Path(__file__).parents[2]
RUNNER = CliRunner()


def test_the_server_answers_and_stops_on_ctrl_c() -> None:
    with serve_process() as (process, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/info", timeout=30) as response:
            info = json.load(response)
        assert info["sha256"] == digest(pretrained_path("pooled_cnn", "mnist"))
        assert info["facts"]["data"] == "mnist"
        body = json.dumps({"images": [[[0] * 28] * 28]}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/predict?top=2", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            assert len(json.load(response)["predictions"][0]["scores"]) == 2
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "stopped" in out
    assert "Traceback" not in err


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of the applications that the command creates; no server is started."""
    import torchcaps.serve.server
    import torchcaps.web.connections

    applications: list[dict[str, Any]] = []
    monkeypatch.setattr(
        torchcaps.serve.server,
        "create_app",
        lambda predictor, options, **others: applications.append({"options": options, **others}),
    )
    monkeypatch.setattr(torchcaps.web.connections, "create_server", lambda app: MagicMock())
    return applications


@pytest.mark.usefixtures("created")
def test_a_program_reads_the_address_and_a_new_token(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["serve", "pooled_cnn-mnist", "--port", "0", "--host", "0.0.0.0", "--json"]
    monkeypatch.delenv("TORCHCAPS_SERVE_TOKEN", raising=False)
    printed = json.loads(RUNNER.invoke(app, words).stdout)
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/predict", printed["url"])
    assert len(printed["token"]) >= 32
    monkeypatch.setenv("TORCHCAPS_SERVE_TOKEN", "chosen-by-the-user")
    assert json.loads(RUNNER.invoke(app, words).stdout)["token"] is None, "a secret of the user"


@pytest.mark.parametrize(("host", "local"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False)])
@pytest.mark.parametrize("variable", [None, "chosen-by-the-user"])
def test_other_machines_need_a_token(
    host: str,
    local: bool,
    variable: str | None,
    created: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TORCHCAPS_SERVE_TOKEN", raising=False)
    if variable:
        monkeypatch.setenv("TORCHCAPS_SERVE_TOKEN", variable)
    result = RUNNER.invoke(app, ["serve", "pooled_cnn-mnist", "--port", "0", "--host", host])
    assert result.exit_code == 0, result.output
    assert ("warning" in result.output) is not local
    token, hosts = created[-1]["token"], created[-1]["hosts"]
    if variable:
        assert token == variable
        assert variable not in result.output, "a secret of the user is not printed"
    elif local:
        assert token is None
        assert "localhost" in hosts
    else:
        assert len(token) >= 32
        assert token in result.output
    assert (hosts is None) is (token is not None)


def test_options_reach_the_server(created: list[dict[str, Any]]) -> None:
    words = [
        "--max-batch",
        "3",
        "--max-wait",
        "7",
        "--max-queue",
        "9",
        "--max-body",
        "0.5",
        "--max-pixels",
        "1000",
    ]
    result = RUNNER.invoke(app, ["serve", "pooled_cnn-mnist", "--port", "0", *words])
    assert result.exit_code == 0, result.output
    options = created[-1]["options"]
    assert (options.max_batch, options.max_wait_ms, options.max_queue) == (3, 7, 9)
    assert (options.max_body_mb, options.max_pixels) == (0.5, 1000)


def test_a_used_port_is_reported_with_the_next_free_one() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        result = RUNNER.invoke(app, ["serve", "pooled_cnn-mnist", "--port", str(port)])
    assert result.exit_code == 1
    assert re.search(r"torchcaps serve --port \d+", result.output)


def test_a_missing_extra_is_reported_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = RUNNER.invoke(app, ["serve", "pooled_cnn-mnist"])
    assert 'pip install "torchcaps[serve]"' in str(result.exception)


def test_the_dockerfile_uses_files_and_a_command_that_exist() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, flags=re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources), line
    words = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, flags=re.MULTILINE)[1])
    words += json.loads(re.search(r"^CMD (.*)$", text, flags=re.MULTILINE)[1])
    assert words[:2] == ["torchcaps", "serve"]
    result = RUNNER.invoke(app, [*words[1:], "--help"])
    assert result.exit_code == 0, result.output
    extra = re.search(r"torchcaps\[(\w+)\]|\.whl\[(\w+)\]", text)
    assert extra
    assert "serve" in extra.groups()

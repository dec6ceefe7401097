"""A lab in its own process, started like `torchcaps lab` but with untrained networks."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torchcaps.lab.server as server
from support.lab_models import untrained_store
server.load_model_store = untrained_store
from torchcaps.cli import main
main(sys.argv[1:])
"""


@contextmanager
def lab_process(arguments: Sequence[str] = ("--port", "0")) -> Iterator[tuple[subprocess.Popen, int]]:
    """A running lab and its port; killed on exit."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, "lab", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = re.search(r"http://\S+:(\d+)/", line)
        assert match, (line, process.stderr.read() if process.stderr else "")
        yield process, int(match[1])
    finally:
        process.kill()
        process.wait()

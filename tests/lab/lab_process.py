"""A lab in a process of its own, as `torchcaps lab` starts one, but with untrained networks."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# The command finds its networks by load_shelf; here they are made on the spot.
START = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import torchcaps.lab.server as server
from lab_models import untrained_shelf
server.load_shelf = untrained_shelf
from torchcaps.cli import main
main(sys.argv[1:])
"""


@contextmanager
def lab_process(arguments: Sequence[str] = ("--port", "0")) -> Iterator[tuple[subprocess.Popen, int]]:
    """A running lab and its port; ended, if it still runs, when it is done with."""
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
        found = re.search(r"http://\S+:(\d+)/", line)
        assert found, (line, process.stderr.read() if process.stderr else "")
        yield process, int(found[1])
    finally:
        process.kill()
        process.wait()

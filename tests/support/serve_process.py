"""A server for predictions in its own process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager


@contextmanager
def serve_process(
    arguments: Sequence[str] = ("pooled_cnn-mnist", "--port", "0"), variables: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen, int]]:
    """A running server and its port; killed on exit."""
    process = subprocess.Popen(
        [sys.executable, "-m", "torchcaps", "serve", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **(variables or {})},
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

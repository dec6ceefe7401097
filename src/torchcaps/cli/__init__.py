"""The command line.

Commands: train, sweep, evaluate, predict, parse, export, serve, reproduce, compare, results, claims, data,
models, demo, bench, size, doctor, lab.

Each command imports what it needs when it runs, so that `--help` does not wait for PyTorch.
"""

from torchcaps._extras import require

require("typer", extra="train", purpose="the command line")
require("rich", extra="train", purpose="the command line")

from torchcaps.cli.app import main  # noqa: E402 (after the check)

__all__ = ["main"]

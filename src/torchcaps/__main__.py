"""The console script `torchcaps`, `python -m torchcaps` and `torchrun -m torchcaps`."""

from __future__ import annotations

import sys

from torchcaps.errors import MissingExtraError


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        from torchcaps.cli import main as run
    except MissingExtraError as error:
        sys.exit(f"torchcaps: {error}")
    run()


if __name__ == "__main__":
    main()

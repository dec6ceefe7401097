"""The command line: `torchcaps train | evaluate | predict | data | models | demo`.

Commands import what they need when they run, so that `--help` answers at once.
"""

from torchcaps.cli.app import main

__all__ = ["main"]

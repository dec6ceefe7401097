"""Help is at hand at once: nothing heavy is imported for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = ("torch", "accelerate", "matplotlib", "sklearn", "numpy", "safetensors")
# The package itself stands in the way of no one: its own imports are not the command line's doing.
SCRIPT = f"""
import sys, types
package = types.ModuleType("torchcaps")
package.__path__ = [{str(SOURCE / "torchcaps")!r}]
package.__version__ = "0"
sys.modules["torchcaps"] = package
from torchcaps.cli import main
try:
    main(sys.argv[1:])
except SystemExit as left:
    code = left.code or 0
print([name for name in {HEAVY!r} if name in sys.modules])
sys.exit(code)
"""


@pytest.mark.parametrize(
    "command", [[], ["train"], ["evaluate"], ["predict"], ["data"], ["models"], ["demo"]]
)
def test_help_needs_nothing_heavy_and_gives_examples(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *command, "--help"],
        env={**os.environ, "COLUMNS": "120"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *text, imported = done.stdout.strip().splitlines()
    assert imported == "[]"
    assert f"torchcaps {' '.join(command)}".strip() in "\n".join(text[3:])

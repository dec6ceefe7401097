"""Help fits 80 columns, shows examples and imports nothing heavy."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from torchcaps.cli.app import app

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = ("torch", "accelerate", "matplotlib", "sklearn", "numpy", "safetensors")
# Imports the command line without `torchcaps/__init__.py`, to see what it imports itself.
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
FUNCTIONS = {command.callback.__name__: command.callback for command in app.registered_commands}


@pytest.mark.parametrize("command", ["", *FUNCTIONS])
def test_help_imports_nothing_heavy(command: str) -> None:
    words = [*command.split(), "--help"]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def help_text(*command: str) -> str:
    """The help of a command on a terminal of 80 columns."""
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("command", FUNCTIONS)
def test_examples_are_not_broken_at_80_columns(command: str) -> None:
    lines = inspect.cleandoc(FUNCTIONS[command].__doc__).splitlines()
    examples = [line.strip() for line in lines if line.startswith("  ")]
    rendered = [line.strip() for line in help_text(command).splitlines()]
    assert any(f"torchcaps {command}" in example for example in examples)
    assert [example for example in examples if example not in rendered] == []


@pytest.mark.parametrize("command", ["", *FUNCTIONS])
def test_flags_show_no_type(command: str) -> None:
    text = help_text(*command.split())
    assert "bool" not in text.lower()
    assert "list[" not in text
    assert not set("{}") & set(text)
    assert all(len(line) <= 80 for line in text.splitlines())


def test_the_first_help_lists_every_command_and_its_examples_are_not_broken() -> None:
    lines = [line.strip(" │") for line in help_text().splitlines()]
    assert {line.split()[0] for line in lines if line} >= set(FUNCTIONS)
    assert "torchcaps evaluate runs/mnist-shared_capsnet --data two_digits" in lines


def test_the_docstring_of_the_package_names_every_command() -> None:
    import torchcaps.cli

    assert [name for name in FUNCTIONS if name not in torchcaps.cli.__doc__] == []

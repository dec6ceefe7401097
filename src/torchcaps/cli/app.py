from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from torchcaps.cli.bench import bench
from torchcaps.cli.claims import claims
from torchcaps.cli.common import with_common_options
from torchcaps.cli.compare import compare
from torchcaps.cli.data import data
from torchcaps.cli.demo import demo
from torchcaps.cli.doctor import doctor
from torchcaps.cli.evaluate import evaluate
from torchcaps.cli.export import export
from torchcaps.cli.imports import Imports, import_module
from torchcaps.cli.lab import lab
from torchcaps.cli.models import models
from torchcaps.cli.parse import parse
from torchcaps.cli.predict import predict
from torchcaps.cli.reproduce import reproduce
from torchcaps.cli.results import results
from torchcaps.cli.serve import serve
from torchcaps.cli.size import size
from torchcaps.cli.sweep import sweep
from torchcaps.cli.train import train
from torchcaps.errors import DataError, MissingExtraError, RunError

FAILED, USAGE = 1, 2


class Command(TyperCommand):
    """A command whose help is the same for every typer: no type for flags, plain names of arguments."""

    def get_params(self, ctx: Any) -> list[Any]:
        """List the parameters, `--help` included."""
        return show_plain_types(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the command's name; some versions of typer put braces around required ones."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """The group of all commands; its help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """List the parameters, `--help` included."""
        return show_plain_types(super().get_params(ctx))


def show_plain_types(parameters: list[Any]) -> list[Any]:
    """Show nothing after options without a value, where typer would show `<bool>`, and no `<list[Path]>`."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
        shown = getattr(parameter, "display_type_rich", None)  # since typer 0.27
        if shown is not None and "display_type_rich" not in vars(parameter):
            parameter.display_type_rich = partial(plain_type, shown)
    return parameters


def plain_type(shown: Callable[..., str | None], ctx: Any) -> str | None:
    """The type of a parameter, that of one value if it takes several.

    >>> plain_type(lambda ctx: "<list[Path]>", None)
    '<path>'
    """
    text = shown(ctx=ctx)
    return text and re.sub(r"<list\[(\w+)\]>", lambda found: f"<{found[1].lower()}>", text)


app = typer.Typer(
    name="torchcaps",
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    train,
    sweep,
    evaluate,
    predict,
    parse,
    export,
    serve,
    reproduce,
    compare,
    results,
    claims,
    data,
    models,
    demo,
    bench,
    size,
    doctor,
    lab,
)
for function in COMMANDS:
    app.command(cls=Command)(with_common_options(function))


def show_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        from torchcaps import __version__

        typer.echo(f"torchcaps {__version__}")
        raise typer.Exit


@app.callback()
def torchcaps(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
    imports: Imports = None,
) -> None:
    """Capsule networks: train, evaluate, use.

    [bold]First steps[/bold]

      torchcaps data mnist
      torchcaps train --model shared_capsnet --data mnist --epochs 3
      torchcaps evaluate runs/mnist-shared_capsnet --data two_digits
      torchcaps predict photo.png --run runs/mnist-shared_capsnet
      torchcaps parse photo.png --run runs/mnist-shared_capsnet
      torchcaps --import my_models train --model my_capsnet --data mnist

    [bold]Completion[/bold] of commands and options by the Tab key, for bash, zsh, fish and PowerShell

      torchcaps --install-completion

    [bold]Exit codes[/bold]

      0    success, or stopped at the time budget with the state saved
      1    a run failed, or data is missing
      2    the command was wrong
      130  interrupted, with the state saved
    """
    for name in imports or []:
        import_module(name)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; an error is one message and an exit code, not a traceback.

    Set `TORCHCAPS_DEBUG=1` to see tracebacks.
    """
    replace_unprintable()
    try:
        app(arguments)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        if os.environ.get("TORCHCAPS_DEBUG") or not is_message(error):
            raise
        print(f"torchcaps: {error}", file=sys.stderr)
        sys.exit(exit_code(error))


def replace_unprintable() -> None:
    """Print "?" for characters that the terminal's encoding lacks; an arrow must not end a training run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def exit_code(error: Exception) -> int:
    """2 if another command would work, 1 otherwise."""
    return USAGE if isinstance(error, ValueError) and not isinstance(error, DataError) else FAILED


def is_message(error: Exception) -> bool:
    """Whether an error's text is written for the user; anything else is a bug and needs its traceback."""
    return isinstance(error, (ValueError, RunError, OSError, MissingExtraError))

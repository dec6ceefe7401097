"""The option `--quiet`, which every command has."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

QUIET = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors, and what --json prints.")
]


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the option `--quiet` behind its own options.

    >>> def hello(name: str) -> None:
    ...     print("hello", name)
    >>> with_quiet(hello)(name="you", quiet=True)
    >>> with_quiet(hello)(name="you", quiet=False)
    hello you
    """

    @wraps(command)
    def run(*, quiet: bool, **options: Any) -> None:
        # A path after --json (torchcaps bench) is a file, and then nothing needs to be printed.
        if not quiet or options.get("as_json") is True or options.get("json") is True:
            command(**options)
            return
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            command(**options)

    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    parameters = [
        each.replace(annotation=hints[name], kind=each.KEYWORD_ONLY)
        for name, each in signature.parameters.items()
    ]
    quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=QUIET)
    run.__signature__ = signature.replace(parameters=[*parameters, quiet])  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, "quiet": QUIET}
    return run

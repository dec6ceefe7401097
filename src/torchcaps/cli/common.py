"""The options that every command has: `--import`, `--quiet` and `--verbose`."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from torchcaps.cli.imports import Imports, import_module

LOGGER = logging.getLogger("torchcaps")
QUIET = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors, and what --json prints.")
]
VERBOSE = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also say which files are used, and where an error came from.")
]


def with_common_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options `--import`, `--quiet` and `--verbose` behind its own options.

    >>> def hello(name: str) -> None:
    ...     print("hello", name)
    >>> with_common_options(hello)(name="you", imports=None, quiet=True, verbose=False)
    >>> with_common_options(hello)(name="you", imports=None, quiet=False, verbose=False)
    hello you
    """

    @wraps(command)
    def run(*, imports: list[str] | None, quiet: bool, verbose: bool, **options: Any) -> None:
        if quiet and verbose:
            raise ValueError("--quiet and --verbose exclude each other")
        level = logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING
        with messages(level), silence(quiet and not options.get("as_json")):
            try:
                for name in imports or []:
                    import_module(name)
                command(**options)
            except typer.Exit:
                raise
            except Exception:
                LOGGER.debug("the error below was raised here:", exc_info=True)
                raise

    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    parameters = [
        each.replace(annotation=hints[name], kind=each.KEYWORD_ONLY)
        for name, each in signature.parameters.items()
    ]
    common = {"imports": (Imports, None), "quiet": (QUIET, False), "verbose": (VERBOSE, False)}
    for name, (annotation, default) in common.items():
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**hints, **{name: annotation for name, (annotation, _) in common.items()}}
    return run


@contextmanager
def messages(level: int) -> Iterator[None]:
    """Print what torchcaps logs at this level or above on standard error."""
    handler, before = logging.StreamHandler(sys.stderr), LOGGER.level
    handler.setFormatter(logging.Formatter("torchcaps: %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(level)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(before)


@contextmanager
def silence(active: bool) -> Iterator[None]:
    """Print nothing on standard output, if active."""
    if not active:
        yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        yield

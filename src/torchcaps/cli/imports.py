"""The option `--import`: modules of the user, which register models, data sets and routings."""

from __future__ import annotations

import importlib
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from torchcaps._registry import OWN
from torchcaps.errors import RunError

Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import your own module or .py file first, so that the models, data sets and routings it "
        "registers are known; may be repeated.",
    ),
]
"""The option, which comes before the command or after it."""
TORCHCAPS = str(Path(__file__).parents[1])
LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib"))


def import_module(name: str) -> None:
    """Import a module, a package or a `.py` file, with the working directory on the path.

    Raises:
        ValueError: it does not exist, or running it failed; the message names the file and the line.
    """
    from torchcaps.data import list_datasets

    list_datasets()  # registers them: a name that is taken is then an error in the user's line
    add_to_path(Path.cwd())
    try:
        if name.endswith(".py"):
            import_file(Path(name))
        else:
            importlib.import_module(name.rstrip("/"))
    except Exception as error:
        raise ValueError(f"--import {name}: {describe(error, name)}") from error


def import_file(path: Path) -> None:
    """Import a file as the module of its name; modules beside it can be imported too."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    path = path.resolve()
    present = sys.modules.get(path.stem)
    if present is not None and getattr(present, "__file__", None) != str(path):
        raise ImportError(f"the name {path.stem!r} belongs to another module: rename the file")
    spec = spec_from_file_location(path.stem, path)
    if present is not None or spec is None or spec.loader is None:
        return
    add_to_path(path.parent)
    module = sys.modules[path.stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def add_to_path(folder: Path) -> None:
    """Let modules in a folder be imported, as `python -m` does with the working directory."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def describe(error: Exception, name: str) -> str:
    """What went wrong in a module, and where."""
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        return f"there is no module {error.name!r}, neither in {Path.cwd()} nor installed"
    place = find_line(error)
    if not place:
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__} in {place}: {text}"


def find_line(error: Exception) -> str:
    """The line of the user's code that an error comes from, or an empty string."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((TORCHCAPS, "<frozen importlib", importlib.__file__))
    ]
    # A package of the user may be installed among the libraries.
    own = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)] or frames
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else ""


@contextmanager
def import_hint(run: Path) -> Iterator[None]:
    """Say in the error about a name that is not registered which modules the run was started with.

    Args:
        run: the folder of the run that was named, or a weights file in it.
    """
    try:
        yield
    except (ValueError, RunError) as error:
        folder = run if run.is_dir() else run.parent
        missing = [name for name in recorded_imports(folder) if not is_imported(name)]
        if not missing or OWN not in str(error):
            raise
        words = " ".join(f"--import {name}" for name in missing)
        hint = f"The run was started with {words}: write this here too."
        raise type(error)(str(error).replace(OWN, hint)) from error


def is_imported(name: str) -> bool:
    """Whether a module or a `.py` file, named as for `--import`, has been imported.

    >>> is_imported("torchcaps.cli"), is_imported("elsewhere/my_routing.py")
    (True, False)
    """
    return (Path(name).stem if name.endswith(".py") else name.rstrip("/")) in sys.modules


def recorded_imports(run: Path) -> list[str]:
    """The modules that the first session of a run imported by `--import`."""
    from torchcaps.training.run import sessions_of

    sessions = sessions_of(run)
    return parse_imports(sessions[0]["command"][1:]) if sessions else []


def parse_imports(words: list[str]) -> list[str]:
    """The values of `--import` among the words of a command.

    >>> parse_imports(["--import", "mine", "--import=more.py", "train", "capsnet"])
    ['mine', 'more.py']
    """
    after = [value for word, value in pairwise(words) if word == "--import"]
    return after + [word.partition("=")[2] for word in words if word.startswith("--import=")]

from __future__ import annotations

from os import PathLike


class DataError(ValueError):
    """Data that is missing, damaged or not what it should be; the message names the file and the fault."""

    @classmethod
    def in_file(cls, path: str | PathLike[str], fault: str) -> DataError:
        """Make the error for one file.

        >>> print(DataError.in_file("a.mat", "it is empty"))
        a.mat: it is empty
        """
        return cls(f"{path}: {fault}")


class RunError(RuntimeError):
    """A run that cannot continue; the message says what happened and what can be done."""


class MissingExtraError(ImportError):
    """A package of an optional extra is not installed; the message is the command that installs it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")
OWN = "If it is your own, import the module that registers it first (on the command line: --import FILE.py)."
"""What the error about a name that is not registered says besides the names that are."""


def suggest(name: object, known: Iterable[str], most: int | None = None, note: str = "") -> str:
    """The end of an error message for an unknown name: the nearest known name, and the others.

    Args:
        name: the unknown name; the part after its last dot is compared on its own too.
        known: the names that would be accepted.
        most: how many of them to list, the nearest first; by default all, sorted.
        note: a sentence that comes before the list.

    Example:
        >>> suggest("dynamc", ["dynamic", "em"])
        "did you mean 'dynamic'? Known: dynamic, em."
        >>> suggest("lr", ["optimizer.lr", "seed", "training.epochs"], most=2)
        "did you mean 'optimizer.lr'? Nearest: optimizer.lr, training.epochs."
    """
    names = sorted(known)
    nearest = sorted(names, key=lambda each: similarity(str(name), each), reverse=True)
    near = bool(nearest) and max(similarity(str(name), nearest[0])) >= 0.5
    hint = f"did you mean {nearest[0]!r}? " if near else ""
    hint += f"{note} " if note else ""
    if most is not None and most < len(names):
        return f"{hint}Nearest: {', '.join(nearest[:most])}."
    return f"{hint}Known: {', '.join(names) or 'none'}."


def similarity(name: str, other: str) -> tuple[float, float]:
    """How much two names are alike, from 0 to 1: the better of whole names and last parts, then whole names.

    >>> similarity("lr", "optimizer.lr")[0], similarity("lr", "seed")[0]
    (1.0, 0.0)
    """
    whole = difflib.SequenceMatcher(None, name, other).ratio()
    last = difflib.SequenceMatcher(None, name.rpartition(".")[2], other.rpartition(".")[2]).ratio()
    return max(whole, last), whole


class Registry(Generic[T]):
    """Named things of one kind, with an error that helps when the name is wrong.

    Args:
        kind: what to call them in errors.
        base: the class that each must be a subclass of, if any.

    >>> animals = Registry[int]("animal")
    >>> _ = animals.register("cat")(4)
    >>> animals["cat"]
    4
    >>> animals["cap"]  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: unknown animal 'cap': did you mean 'cat'? If it is your own, ... Known: cat.
    """

    def __init__(self, kind: str, base: type | None = None) -> None:
        self.kind = kind
        self.base = base
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that registers its target under `name`; a name can be taken only once."""
        if not isinstance(name, str):
            raise ValueError(f"a {self.kind} is registered with its name in brackets, got {name!r} instead")

        def register(entry: T) -> T:
            if self.base is not None and not (isinstance(entry, type) and issubclass(entry, self.base)):
                raise ValueError(
                    f"{self.kind} {name!r} must be a subclass of {self.base.__name__}, got {entry!r}"
                )
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered already")
            self._entries[name] = entry
            return entry

        return register

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            hint = suggest(name, self._entries, note=OWN)
            raise ValueError(f"unknown {self.kind} {name!r}: {hint}") from None

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._entries)

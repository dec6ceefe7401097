from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


def suggest(name: object, known: Iterable[str]) -> str:
    """The end of an error message for an unknown name: the nearest known one, and all of them.

    >>> suggest("dynamc", ["dynamic", "em"])
    "did you mean 'dynamic'? Known: dynamic, em."
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}Known: {', '.join(names) or 'none'}."


class Registry(Generic[T]):
    """Named things of one kind, with an error that helps when the name is wrong.

    >>> animals = Registry[int]("animal")
    >>> _ = animals.register("cat")(4)
    >>> animals["cat"]
    4
    >>> animals["cap"]
    Traceback (most recent call last):
    ValueError: unknown animal 'cap': did you mean 'cat'? Known: cat.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that files its target under `name`; a name can be taken only once."""

        def file(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered already")
            self._entries[name] = entry
            return entry

        return file

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except (KeyError, TypeError):
            raise ValueError(f"unknown {self.kind} {name!r}: {suggest(name, self._entries)}") from None

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._entries)

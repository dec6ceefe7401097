from __future__ import annotations


class RunError(RuntimeError):
    """A run that cannot go on; the message says what happened and what can be done."""

from __future__ import annotations


def counted(number: int, one: str, several: str | None = None) -> str:
    """A number and its noun.

    Args:
        number: how many.
        one: the noun.
        several: its plural; by default with an s.

    Example:
        >>> counted(1, "epoch"), counted(1500, "epoch"), counted(2, "batch", "batches")
        ('1 epoch', '1,500 epochs', '2 batches')
    """
    return f"{number:,} {one if number == 1 else several or one + 's'}"

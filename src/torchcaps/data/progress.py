from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(
    description: str,
    total: int | None,
    *,
    completed: int = 0,
    in_bytes: bool = False,
    disable: bool = False,
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal; nothing elsewhere, or if rich is not installed.

    Args:
        description: the text before the bar.
        total: steps in all, if known.
        completed: steps that are done already.
        in_bytes: whether steps are bytes of a download, to be shown with their rate.
        disable: show nothing.

    Yields:
        A function to call with the number of steps done since the last call.

    Example:
        >>> with progress_bar("Counting", 3) as advance:
        ...     advance(3)
    """
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
    except ModuleNotFoundError:
        yield lambda count: None
        return
    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()]
    shown = columns if in_bytes else Progress.get_default_columns()
    with Progress(*shown, console=console, disable=disable or not console.is_terminal, transient=True) as bar:
        task = bar.add_task(description, total=total, completed=completed)
        yield lambda count: bar.advance(task, count)

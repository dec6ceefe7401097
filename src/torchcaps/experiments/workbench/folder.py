"""A folder holds one experiment in one form: its `study.json` says which, and how long it took so far."""

from __future__ import annotations

from pathlib import Path

from torchcaps.experiments.workbench.on_disk import read_table, write_table

# What a training leaves, and so does an experiment that ended: beside no study.json they are not ours.
OTHERS = ("recipe.toml", "result.json")


def take_folder(out: Path, name: str, *, quick: bool, seed: int) -> None:
    """Make a folder an experiment's own, or see that it is; the files of another are never overwritten.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     take_folder(Path(folder), "votes", quick=True, seed=0)
        ...     take_folder(Path(folder), "boats", quick=True, seed=0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ... holds the quick form of votes with seed 0: give another --out, or remove that folder
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file: give a folder, or a new name")
    path = out / "study.json"
    if not path.is_file():
        found = [each for each in OTHERS if (out / each).exists()]
        if found:
            raise ValueError(
                f"{out} holds something else, a training or a result ({', '.join(found)}): give another --out"
            )
        write_table(path, {"name": name, "quick": quick, "seed": seed, "seconds": 0.0})
    # A folder from before names were written down is taken at its user's word.
    before = {"name": name, **read_table(path, "quick", "seed")}
    if (before["name"], before["quick"], before["seed"]) != (name, quick, seed):
        form = "quick" if before["quick"] else "full"
        raise ValueError(
            f"{out} holds the {form} form of {before['name']} with seed {before['seed']}: "
            "give another --out, or remove that folder"
        )


def add_seconds(out: Path, seconds: float) -> float:
    """Add a session's seconds to those of earlier ones; returns the sum."""
    path = out / "study.json"
    table = read_table(path)
    table["seconds"] = round(table.get("seconds", 0.0) + seconds, 1)
    write_table(path, table)
    return table["seconds"]

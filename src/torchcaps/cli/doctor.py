from __future__ import annotations

from typing import Annotated

import typer

from torchcaps.cli.options import AsJson


def doctor(
    kernels: Annotated[
        bool,
        typer.Option(
            "--kernels", help="Also compare the kernels for GPUs with the plain form, on many layers."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show what torchcaps finds on this machine, as a table to paste into an issue.

    Versions, devices, fused kernels and why they are used or not, data, extras, environment variables, and a
    self-test of a few seconds.

    [bold]Examples[/bold]

      torchcaps doctor
      torchcaps doctor --kernels --json
    """
    import json

    from torchcaps.doctor import examine

    found = examine(kernels_too=kernels)
    if as_json:
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        lines = ["| part | | |", "|---|---|---|"]
        for part, rows in found.items():
            for name, value in rows.items():
                lines.append(f"| {part} | {name} | {value.replace('|', '/')} |")
        typer.echo("\n".join(lines))
    if any(
        text in value for rows in found.values() for value in rows.values() for text in ("DIFFER", "FAILED")
    ):
        raise typer.Exit(1)

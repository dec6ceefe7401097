from __future__ import annotations

from pathlib import Path

import typer

from torchcaps.cli.options import AsJson

PAGE = Path("CLAIMS.md")


def claims(as_json: AsJson = False) -> None:
    """Write CLAIMS.md, and the table of verdicts in the READMEs, from the records in claims/.

    `torchcaps reproduce NAME --record` writes a record.

    [bold]Examples[/bold]

      torchcaps claims
    """
    import json

    from torchcaps.experiments.framework.page import HEAD, write_pages
    from torchcaps.experiments.framework.record import CLAIMS
    from torchcaps.experiments.listing import list_claims

    if not CLAIMS.is_dir() and not PAGE.is_file():
        raise ValueError(f"there is neither {CLAIMS}/ nor {PAGE} here: run this in a checkout")
    if PAGE.is_file() and not PAGE.read_text(encoding="utf-8").startswith(HEAD.splitlines()[0]):
        raise ValueError(f"{PAGE} was not written by this command and would be lost: move it away first")
    written = write_pages(list_claims(), Path(), CLAIMS)
    if as_json:
        typer.echo(json.dumps({"written": [str(path) for path in written]}))
        return
    for path in written:
        typer.echo(f"wrote {path}")

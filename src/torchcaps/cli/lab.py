from __future__ import annotations

import secrets
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from torchcaps.cli.imports import import_hint
from torchcaps.cli.listening import (
    ListeningJson,
    announce,
    known_hosts,
    open_listener,
    reachable_host,
    run_until_stopped,
)

DEFAULT_PORT = 8765
INSTALL = "the lab needs FastAPI and uvicorn: pip install 'torchcaps[lab]'"


def lab(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; by default only this machine can connect. With any other address, "
            "clients need the token in the link that is printed at the start."
        ),
    ] = "127.0.0.1",
    run: Annotated[
        Path | None,
        typer.Option(help="The folder of a run, finished or in training, for a view of its own."),
    ] = None,
    as_json: ListeningJson = False,
) -> None:
    """Explore capsule networks in a browser: draw, tweak, overlap, turn, attack, compare.

    [bold]Examples[/bold]

      torchcaps lab
      torchcaps lab --port 9000
      torchcaps lab --run runs/mine         your own network and its curves
      torchcaps lab --host 0.0.0.0          let other machines connect, with a token
    """
    try:
        import fastapi
        import uvicorn
    except ImportError:
        typer.echo(f"torchcaps: {INSTALL}", err=True)
        raise typer.Exit(1) from None
    del fastapi, uvicorn  # imported only to report that one is missing before anything is loaded

    opened = None
    if run is not None:
        from torchcaps.lab.run import LabRun

        with import_hint(run):
            opened = LabRun(run)
    listener = open_listener("lab", host, port)
    address, port = listener.getsockname()[:2]
    token = None if ip_address(address).is_loopback else secrets.token_urlsafe(24)
    if token is not None:
        typer.echo(
            f"warning: with --host {host}, other machines can reach the lab, without encryption. "
            "Whoever has the token in the address below can use it.",
            err=True,
        )

    from torchcaps.lab.server import create_app

    app = create_app(hosts=known_hosts(host, address), token=token, run=opened)
    shown = reachable_host(host)
    query = "" if token is None else f"?token={token}"
    url = f"http://{shown}:{port}/{query}"
    # Replaces uvicorn's own messages at the start.
    announce(f"torchcaps lab: {url} (Ctrl-C stops it)", url, token, as_json=as_json)
    if host in ("0.0.0.0", "::") and not as_json:
        typer.echo(f"On other machines, replace {shown} by the name or address of this one.")
    run_until_stopped("lab", app, listener, quiet=as_json)

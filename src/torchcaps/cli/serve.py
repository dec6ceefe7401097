from __future__ import annotations

import os
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
from torchcaps.cli.options import WEIGHTS_HELP

DEFAULT_PORT = 8000
TOKEN_VARIABLE = "TORCHCAPS_SERVE_TOKEN"


def serve(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_OR_MODEL",
            help=f"{WEIGHTS_HELP}.",
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free port.")
    ] = DEFAULT_PORT,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; by default only this machine can connect. With any other address, "
            f"clients need a token: that in {TOKEN_VARIABLE}, or one that is printed."
        ),
    ] = "127.0.0.1",
    max_batch: Annotated[int, typer.Option(min=1, help="Images computed together, at most.")] = 32,
    max_wait: Annotated[
        float, typer.Option(min=0, max=10000, metavar="MS", help="Milliseconds to wait for other images.")
    ] = 5.0,
    max_queue: Annotated[
        int, typer.Option(min=1, help="Images that may wait; more are refused with status 503.")
    ] = 128,
    max_body: Annotated[
        float, typer.Option(min=0.001, max=1000, metavar="MB", help="Size of the largest request.")
    ] = 8.0,
    max_pixels: Annotated[
        int, typer.Option(min=1, help="Width times height of the largest image.")
    ] = 16_000_000,
    as_json: ListeningJson = False,
) -> None:
    """Answer requests for predictions over HTTP.

    [bold]Examples[/bold]

      torchcaps serve capsnet_small-mnist
      torchcaps serve runs/mnist-shared_capsnet --port 9000 --max-wait 10
      curl --data-binary @digit.png http://127.0.0.1:8000/predict
    """
    from torchcaps._extras import require

    for module in ("fastapi", "pydantic", "uvicorn"):
        require(module, extra="serve", purpose="the server for predictions")
    import torch

    from torchcaps._files import digest
    from torchcaps.models.weights import load_weights
    from torchcaps.serve.server import Options, create_app, warm_up
    from torchcaps.training.prediction import Predictor, find_weights

    with import_hint(model):
        weights = find_weights(model)
        predictor = Predictor(*load_weights(weights))
    predictor.model.to("cuda" if torch.cuda.is_available() else "cpu")
    warm_up(predictor)

    listener = open_listener("serve", host, port)
    address, port = listener.getsockname()[:2]
    local = ip_address(address).is_loopback
    chosen = os.environ.get(TOKEN_VARIABLE)
    token = chosen or (None if local else secrets.token_urlsafe(24))
    if not local:
        typer.echo(
            f"warning: with --host {host}, other machines can reach the server, without encryption.", err=True
        )
    # With a token, a page of another site cannot use the server, whatever name leads to it.
    hosts = known_hosts(host, address) if token is None else None
    app = create_app(
        predictor,
        Options(max_body, max_pixels, max_batch, max_wait, max_queue),
        sha256=digest(weights),
        hosts=hosts,
        token=token,
    )
    url = f"http://{reachable_host(host)}:{port}/predict"
    sentence = f"torchcaps serve: {weights} at {url} (Ctrl-C stops it)"
    # A token that the user has chosen is a secret, which is not printed.
    announce(sentence, url, None if chosen else token, as_json=as_json)
    if token is not None and not as_json:
        value = f"the value of {TOKEN_VARIABLE}" if chosen else token
        typer.echo(f"Clients need the header Authorization: Bearer TOKEN, with TOKEN {value}")
    run_until_stopped("serve", app, listener, quiet=as_json)

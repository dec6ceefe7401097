from __future__ import annotations

import errno
import logging
import socket
import sys
from asyncio import CancelledError
from ipaddress import ip_address
from typing import Annotated

import typer

PORT, TRIED = 8765, 100
INSTALL = "the lab needs FastAPI and uvicorn: pip install 'torchcaps[lab]'"


def lab(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any free port.")
    ] = PORT,
    host: Annotated[
        str, typer.Option(help="Who may come in: this machine only, unless another address is given.")
    ] = "127.0.0.1",
) -> None:
    """See capsules agree, in a browser: draw, tweak, overlap, turn, attack.

    [bold]Examples[/bold]

      torchcaps lab
      torchcaps lab --port 9000
      torchcaps lab --host 0.0.0.0                   open to the whole network
    """
    try:
        import fastapi
        import uvicorn
    except ImportError:
        typer.echo(f"torchcaps: {INSTALL}", err=True)
        raise typer.Exit(1) from None
    del fastapi  # looked for here, so that its absence is told before anything is loaded

    listener = listen(host, port)
    if not is_loopback(host):
        typer.echo(f"warning: --host {host} lets everyone who can reach this machine use the lab", err=True)

    from torchcaps.lab.server import create_app

    local = is_loopback(host)
    app = create_app(hosts={"127.0.0.1", "localhost", "::1", host} if local else None)
    # An address that stands for all addresses is none that every browser can open.
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{reached}]" if ":" in reached else reached
    # uvicorn has its own words for a start; one line with the address is all that one needs.
    typer.echo(f"torchcaps lab: http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C stops it)")
    # Whoever waits for an answer when the lab is stopped gets none; that is no news for who stopped it.
    logging.getLogger("uvicorn.error").addFilter(is_news)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # uvicorn has shut down in order, and only then passes the signal on
    finally:
        listener.close()
    typer.echo("torchcaps lab: stopped")


def is_news(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn's is about anything but requests that were cut off by stopping."""
    said = record.getMessage()
    kind = record.exc_info[0] if record.exc_info else None
    cut = kind is not None and issubclass(kind, CancelledError)
    return not (cut or "CancelledError" in said or (said.startswith("Cancel ") and "running task" in said))


def listen(host: str, port: int) -> socket.socket:
    """A socket bound to the port, or to the next free one if a person says so."""
    try:
        return bound(host, port)
    except OSError as fault:
        if isinstance(fault, socket.gaierror):
            raise ValueError(f"--host {host} is not an address of this machine ({fault.strerror})") from None
        free = next_free(host, port + 1) if fault.errno == errno.EADDRINUSE else None
        if free is None:
            raise OSError(f"cannot listen on {host} port {port}: {fault.strerror}") from None
    if sys.stdin.isatty() and typer.confirm(f"Port {port} is taken. Use {free} instead?", default=True):
        return bound(host, free)
    typer.echo(f"torchcaps: port {port} is taken, {free} is free: torchcaps lab --port {free}", err=True)
    raise typer.Exit(1)


def bound(host: str, port: int) -> socket.socket:
    """A socket bound to this very port; an `OSError` if that cannot be."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    # With the protocol named, asyncio turns Nagle's algorithm off; otherwise each answer waits 40 ms for it.
    listener = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # there it would let two programs share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)  # so that a second lab is refused even before this one answers
    except OSError:
        listener.close()
        raise
    return listener


def next_free(host: str, start: int) -> int | None:
    """The first free port from `start` on, if one of the next hundred is."""
    for port in range(start, min(start + TRIED, 65536)):
        try:
            bound(host, port).close()
        except OSError:
            continue
        return port
    return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

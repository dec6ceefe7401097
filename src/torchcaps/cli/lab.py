from __future__ import annotations

import errno
import logging
import secrets
import socket
import sys
from asyncio import CancelledError
from ipaddress import ip_address
from typing import Annotated

import typer

DEFAULT_PORT, PORTS_TO_TRY = 8765, 100
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
) -> None:
    """Explore capsule networks in a browser: draw, tweak, overlap, turn, attack.

    [bold]Examples[/bold]

      torchcaps lab
      torchcaps lab --port 9000
      torchcaps lab --host 0.0.0.0          let other machines connect, with a token
    """
    try:
        import fastapi
        import uvicorn
    except ImportError:
        typer.echo(f"torchcaps: {INSTALL}", err=True)
        raise typer.Exit(1) from None
    del fastapi, uvicorn  # imported only to report that one is missing before anything is loaded

    listener = open_listener(host, port)
    address, port = listener.getsockname()[:2]
    token = None if ip_address(address).is_loopback else secrets.token_urlsafe(24)
    # Not every browser can open an address that stands for all addresses.
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    if token is not None:
        typer.echo(
            f"warning: with --host {host}, other machines can reach the lab, without encryption. "
            "Whoever has the token in the address below can use it.",
            err=True,
        )

    from torchcaps.lab.connections import create_server
    from torchcaps.lab.server import create_app

    app = create_app(hosts=known_hosts(host, address), token=token)
    shown = f"[{reachable}]" if ":" in reachable else reachable
    query = "" if token is None else f"?token={token}"
    # Replaces uvicorn's own messages at the start.
    typer.echo(f"torchcaps lab: http://{shown}:{port}/{query} (Ctrl-C stops it)")
    if reachable != host:
        typer.echo(f"On other machines, replace {shown} by the name or address of this one.")
    logging.getLogger("uvicorn.error").addFilter(is_not_cancellation)
    try:
        create_server(app).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # raised by uvicorn after an orderly shutdown
    finally:
        listener.close()
    typer.echo("torchcaps lab: stopped")


def is_not_cancellation(record: logging.LogRecord) -> bool:
    """Whether to log a message of uvicorn: not if it only reports requests canceled by the shutdown."""
    message = record.getMessage()
    kind = record.exc_info[0] if record.exc_info else None
    canceled = kind is not None and issubclass(kind, CancelledError)
    return not (
        canceled
        or "CancelledError" in message
        or (message.startswith("Cancel ") and "running task" in message)
    )


def open_listener(host: str, port: int) -> socket.socket:
    """A socket bound to the port, or to the next free one if the user agrees."""
    try:
        return bind_socket(host, port)
    except OSError as error:
        if isinstance(error, socket.gaierror):
            raise ValueError(f"--host {host} is not an address of this machine ({error.strerror})") from None
        free = find_free_port(host, port + 1) if error.errno == errno.EADDRINUSE else None
        if free is None:
            raise OSError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    if sys.stdin.isatty() and typer.confirm(f"Port {port} is in use. Use {free} instead?", default=True):
        return bind_socket(host, free)
    typer.echo(f"torchcaps: port {port} is in use, {free} is free: torchcaps lab --port {free}", err=True)
    raise typer.Exit(1)


def bind_socket(host: str, port: int) -> socket.socket:
    """A listening socket on this port.

    Raises:
        OSError: if the port cannot be used.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    # asyncio turns off Nagle's algorithm only if the protocol is given; otherwise responses are 40 ms slower.
    listener = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":  # there it would let two programs share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)  # a second lab is refused even while this one still starts
    except OSError:
        listener.close()
        raise
    return listener


def find_free_port(host: str, start: int) -> int | None:
    """The first free port from `start` on, among the next hundred."""
    for port in range(start, min(start + PORTS_TO_TRY, 65536)):
        try:
            bind_socket(host, port).close()
        except OSError:
            continue
        return port
    return None


def known_hosts(host: str, address: str) -> set[str]:
    """The names by which clients may call a lab on this host, bound to this address, in lower case.

    >>> sorted(known_hosts("localhost", "127.0.0.1"))
    ['127.0.0.1', '::1', 'localhost']
    """
    names = {"127.0.0.1", "localhost", "::1", host.lower(), address}
    if not ip_address(address).is_loopback:
        machine = socket.gethostname().lower()
        names |= {machine, f"{machine.removesuffix('.local')}.local"}
    return names

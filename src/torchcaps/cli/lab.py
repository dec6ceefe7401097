from __future__ import annotations

import errno
import logging
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
        str, typer.Option(help="Address to listen on; by default only this machine can connect.")
    ] = "127.0.0.1",
) -> None:
    """Explore capsule networks in a browser: draw, tweak, overlap, turn, attack.

    [bold]Examples[/bold]

      torchcaps lab
      torchcaps lab --port 9000
      torchcaps lab --host 0.0.0.0          accept connections from the network
    """
    try:
        import fastapi
        import uvicorn
    except ImportError:
        typer.echo(f"torchcaps: {INSTALL}", err=True)
        raise typer.Exit(1) from None
    del fastapi, uvicorn  # imported only to report that one is missing before anything is loaded

    listener = open_listener(host, port)
    local = is_loopback(host)
    if not local:
        typer.echo(
            f"warning: with --host {host}, everyone who can reach this machine can use the lab", err=True
        )

    from torchcaps.lab.connections import create_server
    from torchcaps.lab.server import create_app

    app = create_app(hosts={"127.0.0.1", "localhost", "::1", host} if local else None)
    # Not every browser can open an address that stands for all addresses.
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{reachable}]" if ":" in reachable else reachable
    # Replaces uvicorn's own messages at the start.
    typer.echo(f"torchcaps lab: http://{shown}:{listener.getsockname()[1]}/ (Ctrl-C stops it)")
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


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

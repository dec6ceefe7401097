"""The socket of a server: which port, which names clients may call it by, and running until Ctrl-C."""

from __future__ import annotations

import errno
import json
import logging
import socket
import sys
from asyncio import CancelledError
from ipaddress import ip_address
from typing import Annotated, Any

import typer

PORTS_TO_TRY = 100
ListeningJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object, url and token, once the server listens.")
]


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


def open_listener(command: str, host: str, port: int) -> socket.socket:
    """A socket for a command, bound to the port, or to the next free one if the user agrees."""
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
    typer.echo(
        f"torchcaps: port {port} is in use, {free} is free: torchcaps {command} --port {free}", err=True
    )
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
        listener.listen(128)  # a second server is refused even while this one still starts
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
    """The names by which clients may call a server on this host, bound to this address, in lower case.

    >>> sorted(known_hosts("localhost", "127.0.0.1"))
    ['127.0.0.1', '::1', 'localhost']
    """
    names = {"127.0.0.1", "localhost", "::1", host.lower(), address}
    if not ip_address(address).is_loopback:
        machine = socket.gethostname().lower()
        names |= {machine, f"{machine.removesuffix('.local')}.local"}
    return names


def reachable_host(host: str) -> str:
    """The host for a URL on this machine: not every client can open an address that stands for all.

    >>> reachable_host("0.0.0.0"), reachable_host("::"), reachable_host("localhost")
    ('127.0.0.1', '[::1]', 'localhost')
    """
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{reachable}]" if ":" in reachable else reachable


def announce(sentence: str, address: str, token: str | None, *, as_json: bool) -> None:
    """Say where a server listens: a sentence, or for programs one JSON object."""
    typer.echo(json.dumps({"url": address, "token": token}) if as_json else sentence)


def run_until_stopped(command: str, app: Any, listener: socket.socket, *, quiet: bool = False) -> None:
    """Serve an application until Ctrl-C; unless quiet, print at the end that it was stopped."""
    from torchcaps.web.connections import create_server

    logging.getLogger("uvicorn.error").addFilter(is_not_cancellation)
    try:
        create_server(app).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # raised by uvicorn after an orderly shutdown
    finally:
        listener.close()
    if not quiet:
        typer.echo(f"torchcaps {command}: stopped")

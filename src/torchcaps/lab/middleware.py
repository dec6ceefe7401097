"""ASGI middleware: security headers, a limit on the size of requests, and a list of allowed host names."""

from __future__ import annotations

from collections.abc import Collection

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1_000_000
TOO_LARGE = f"the body is larger than the limit of {MAX_BODY_BYTES // 1_000_000} MB"

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The browser revalidates its copy each time, so a new version of the page appears at once.
    "Cache-Control": "no-cache",
}


class SecurityHeaders:
    """Adds `SECURITY_HEADERS` to every response, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class BodySizeLimit:
    """Rejects large bodies: by their Content-Length, or as soon as too many bytes have arrived."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > MAX_BODY_BYTES:
            await JSONResponse({"detail": TOO_LARGE}, 413, {"Connection": "close"})(scope, receive, send)
            return
        received, response_started = 0, False

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY_BYTES:
                if response_started:  # too late for an error response
                    return {"type": "http.disconnect"}
                raise HTTPException(413, TOO_LARGE)
            return message

        async def send_tracked(message: Message) -> None:
            nonlocal response_started
            response_started = response_started or message["type"] == "http.response.start"
            await send(message)

        await self.app(scope, receive_counted, send_tracked)


class AllowedHosts:
    """Rejects requests whose Host header is not in a list, to prevent DNS rebinding.

    Without it, the owner of another site could point its name to this machine, and a page of that site could
    read the lab's responses. Starlette's own middleware for this does not accept IPv6 addresses.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http" and host_name(Headers(scope=scope).get("host", "")) not in self.hosts:
            message = f"unknown host name; use one of {', '.join(sorted(self.hosts))}"
            await JSONResponse({"detail": message}, 421)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def host_name(header: str) -> str:
    """The name in a Host header, without the port and without the brackets of an IPv6 address.

    >>> host_name("localhost:8765"), host_name("[::1]:8765"), host_name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    name = header.partition("]")[0][1:] if header.startswith("[") else header.partition(":")[0]
    return name.lower()

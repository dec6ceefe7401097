"""Around every answer: what a browser may load, and how much may be sent."""

from __future__ import annotations

from collections.abc import Collection

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LARGEST_BODY = 1_000_000
TOO_LARGE = f"the body must not be larger than {LARGEST_BODY // 1_000_000} MB"

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # The browser asks each time and is told that nothing changed; a new version is seen at once.
    "Cache-Control": "no-cache",
}


class SafeHeaders:
    """Adds the headers above to every answer, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with headers on the way out."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, guarded if scope["type"] == "http" else send)


class BodyLimit:
    """Refuses large bodies: by what the sender says of them, or once too much has come."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is small enough."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        told = Headers(scope=scope).get("content-length", "0")
        if not told.isascii() or not told.isdigit() or int(told[:20]) > LARGEST_BODY:
            await JSONResponse({"detail": TOO_LARGE}, 413, {"Connection": "close"})(scope, receive, send)
            return
        come, answering = 0, False

        async def counted() -> Message:
            nonlocal come
            message = await receive()
            come += len(message.get("body", b""))
            if come > LARGEST_BODY:
                if answering:  # too late to refuse: whoever listens for more is told that no more will come
                    return {"type": "http.disconnect"}
                raise HTTPException(413, TOO_LARGE)
            return message

        async def noticed(message: Message) -> None:
            nonlocal answering
            answering = answering or message["type"] == "http.response.start"
            await send(message)

        await self.app(scope, counted, noticed)


class KnownHosts:
    """Answers only to the names given: another site's name may be made to lead to this machine.

    A page of that site could then read the lab's answers as its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what was asked of this machine by its name."""
        if scope["type"] == "http" and host_name(Headers(scope=scope).get("host", "")) not in self.hosts:
            names = " and ".join(sorted(self.hosts))
            await JSONResponse({"detail": f"the lab answers to {names} only"}, 421)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def host_name(told: str) -> str:
    """The name in a Host header, without the port and a literal address's brackets.

    >>> host_name("localhost:8765"), host_name("[::1]:8765"), host_name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    name = told.partition("]")[0][1:] if told.startswith("[") else told.partition(":")[0]
    return name.lower()

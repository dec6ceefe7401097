"""ASGI middleware: security headers, a limit on the size of requests, allowed host names, and tokens."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from ipaddress import IPv4Address, IPv6Address, ip_address

from fastapi import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BEARER_NEEDED = "this server needs a token, in the header Authorization: Bearer TOKEN"

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

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes
        self.message = f"the body is larger than the limit of {max_bytes / 1e6:g} MB"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > self.max_bytes:
            await JSONResponse({"detail": self.message}, 413, {"Connection": "close"})(scope, receive, send)
            return
        received, response_started = 0, False

        async def receive_counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                if response_started:  # too late for an error response
                    return {"type": "http.disconnect"}
                raise HTTPException(413, self.message)
            return message

        async def send_tracked(message: Message) -> None:
            nonlocal response_started
            response_started = response_started or message["type"] == "http.response.start"
            await send(message)

        await self.app(scope, receive_counted, send_tracked)


class AllowedHosts:
    """Rejects requests whose Host header is not in a list, to prevent DNS rebinding.

    Without it, the owner of another site could point its name to this machine, and a page of that site could
    read the server's responses. The address to which the client connected is always accepted. Starlette's own
    middleware for this does not accept IPv6 addresses.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http" and not self._is_known(scope):
            message = f"unknown host name; use one of {', '.join(sorted(self.hosts))}"
            await JSONResponse({"detail": message}, 421)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        name = host_name(Headers(scope=scope).get("host", ""))
        return name in self.hosts or is_same_address(name, (scope.get("server") or ("",))[0])


class CookieToken:
    """Rejects requests without the token; for a page in a browser.

    The first visit has it in the address, `?token=...`, and sets a cookie for the page's own requests. The
    page is returned at once: after a redirect, a browser that came from another site would not send the
    cookie.
    """

    def __init__(self, app: ASGIApp, token: str, cookie: str, message: str) -> None:
        self.app, self.token, self.cookie, self.message = app, token, cookie, message

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                cookie = f"{self.cookie}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                MutableHeaders(scope=message).append("Set-Cookie", cookie)
            await send(message)

        request = HTTPConnection(scope)
        if is_same_secret(request.query_params.get("token", ""), self.token):
            await self.app(scope, receive, send_with_cookie)
        elif is_same_secret(request.cookies.get(self.cookie, ""), self.token):
            await self.app(scope, receive, send)
        else:
            await JSONResponse({"detail": self.message}, 403)(scope, receive, send)


class BearerToken:
    """Rejects requests without the header `Authorization: Bearer TOKEN`; for programs.

    Args:
        app: the application.
        token: the secret.
        public: addresses that need no token.
    """

    def __init__(self, app: ASGIApp, token: str, public: Collection[str] = ()) -> None:
        self.app, self.token, self.public = app, token, public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] == "http" and scope["path"] not in self.public:
            kind, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
            if kind.lower() != "bearer" or not is_same_secret(token.strip(), self.token):
                headers = {"WWW-Authenticate": "Bearer"}
                await JSONResponse({"detail": BEARER_NEEDED}, 401, headers)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def is_same_secret(given: str, secret: str) -> bool:
    """Whether a text is the secret; the time that it takes does not tell how much of a guess is right."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def host_name(header: str) -> str:
    """The name in a Host header, without the port and without the brackets of an IPv6 address.

    >>> host_name("localhost:8765"), host_name("[::1]:8765"), host_name("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    name = header.partition("]")[0][1:] if header.startswith("[") else header.partition(":")[0]
    return name.lower()


def is_same_address(first: str, second: str) -> bool:
    """Whether two texts are the same IP address; a server for IPv6 also shows IPv4 addresses as IPv6.

    >>> is_same_address("192.0.2.7", "::ffff:192.0.2.7"), is_same_address("localhost", "localhost")
    (True, False)
    """

    def parse(text: str) -> IPv4Address | IPv6Address:
        address = ip_address(text)
        return getattr(address, "ipv4_mapped", None) or address

    try:
        return parse(first) == parse(second)
    except ValueError:
        return False

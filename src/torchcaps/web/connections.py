"""The HTTP server, with limits on slow clients and on the number of connections."""

from __future__ import annotations

import asyncio

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_TIMEOUT = 10.0  # seconds
MAX_CONNECTIONS = 512


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP protocol, which by itself waits without limit for the rest of a request.

    A client that has not sent its whole request, header and body, within `request_timeout` seconds is
    disconnected; single bytes do not extend the time. This must be done here: an application never sees an
    incomplete header, nor a body that is still arriving after the response.

    If there are more than `max_connections`, the one that has waited longest without a complete request is
    closed. So slow clients cannot keep others out, as they would if new connections were refused.
    """

    request_timeout = REQUEST_TIMEOUT
    max_connections = MAX_CONNECTIONS
    _timer: asyncio.TimerHandle | None = None
    _waiting_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the first request."""
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        self._update_timer()
        if len(self.connections) > self.max_connections:
            self._close_longest_waiting()

    def handle_events(self) -> None:
        """Handle the received bytes, then start or stop the time limit."""
        super().handle_events()
        self._update_timer()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time limit."""
        super().connection_lost(exc)
        self._stop_timer()

    def _is_receiving(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _update_timer(self) -> None:
        # uvicorn closes connections without a byte of the next request itself, by its keep-alive timer.
        idle = self.timeout_keep_alive_task is not None
        if not self._is_receiving() or idle:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.request_timeout, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_longest_waiting(self) -> None:
        waiting = [
            other
            for other in self.connections
            if isinstance(other, LimitedProtocol) and other is not self and other._is_receiving()
        ]
        closed = min(waiting, key=lambda other: other._waiting_since, default=self)
        self.connections.discard(closed)  # at once, so that the next new connection closes another one
        closed.transport.abort()


def create_server(app: ASGIApp) -> uvicorn.Server:
    """A server for an application; `run(sockets=[...])` starts it."""
    return uvicorn.Server(
        uvicorn.Config(app, http=LimitedProtocol, ws="none", log_level="warning", timeout_graceful_shutdown=2)
    )

"""Waiting for a result, but not longer than its client does."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request

CLIENT_CLOSED = 499  # nginx's status for a client that closed its connection


async def wait_unless_disconnected(result: asyncio.Future[Any], request: Request) -> bool:
    """Wait until a result is there or its client has left; the body of the request must have been read.

    Returns:
        Whether the result is there; if not, it is canceled. It is canceled too if this call is.
    """
    disconnect = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({result, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        return result.done()
    finally:
        disconnect.cancel()
        if not result.done():
            result.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

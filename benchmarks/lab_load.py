"""Load test of the lab: waiting times, failures and memory while many clients draw at once.

    torchcaps lab --port 8765 &
    python benchmarks/lab_load.py --port 8765 --pid $! --clients 50 --seconds 30

Every client sends the next drawing as soon as the last is answered, so the queue is always as long as there
are clients.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from http_load import drawing, main, request, run_clients


async def load(port: int, pid: int, clients: int = 50, seconds: float = 30) -> dict[str, Any]:
    """Run `clients` clients for `seconds` seconds and summarize."""

    async def client(number: int, until: float, waits: list[float], failures: list[str]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /api/draw\r\nContent-Type: application/json\r\nX-Session: client-{number}"
        try:
            turn = 0
            while time.monotonic() < until:
                body = json.dumps({"image": drawing(1000 * number + turn)}).encode()
                start = time.perf_counter()
                status, content = await request(reader, writer, head, body)
                waits.append(time.perf_counter() - start)
                if not status.startswith("http/1.1 200"):
                    failures.append(f"{status}: {content[:200].decode()}")
                turn += 1
        except (OSError, asyncio.IncompleteReadError) as error:
            failures.append(repr(error))
        finally:
            writer.close()

    return await run_clients(client, pid, clients, seconds)


if __name__ == "__main__":
    main(load, __doc__, port=8765)

"""What the load tests of the lab and of the prediction server share: clients, requests, memory, a summary."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import psutil

# A client gets its number, when to stop, and two lists to fill: waiting times in seconds, and failures.
Client = Callable[[int, float, list[float], list[str]], Coroutine[Any, Any, None]]


def drawing(seed: int) -> list[list[float]]:
    """An image of a random stroke, 28 rows of 28 numbers."""
    generator = random.Random(seed)
    image = [[0.0] * 28 for _ in range(28)]
    x, y, angle = generator.uniform(8, 20), generator.uniform(8, 20), generator.uniform(0, 2 * math.pi)
    for _ in range(60):
        angle += generator.uniform(-0.4, 0.4)
        x, y = min(max(x + math.cos(angle), 1), 26), min(max(y + math.sin(angle), 1), 26)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            image[int(y) + row][int(x) + column] = 1.0
    return image


async def request(reader: Any, writer: Any, head: str, body: bytes = b"") -> tuple[str, bytes]:
    """Send one request over an open connection.

    Args:
        reader: of the connection.
        writer: of the connection.
        head: the first line without the version of HTTP, and any header lines below it.
        body: of the request.

    Returns:
        The status line and the body of the answer.
    """
    line, _, headers = head.partition("\r\n")
    lines = [f"{line} HTTP/1.1", "Host: 127.0.0.1", *filter(None, [headers]), f"Content-Length: {len(body)}"]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    length = next(int(line.split(":")[1]) for line in answer if line.startswith("content-length"))
    return answer[0], await reader.readexactly(length)


async def record_memory(pid: int, until: float, sizes: list[float]) -> None:
    """Record the server's resident memory in MB, ten times."""
    pause = (until - time.monotonic()) / 10
    for _ in range(10):
        await asyncio.sleep(pause)
        sizes.append(psutil.Process(pid).memory_info().rss / 1e6)


async def run_clients(client: Client, pid: int, clients: int, seconds: float) -> dict[str, Any]:
    """Run `clients` clients for `seconds` seconds and summarize."""
    waits: list[float] = []
    failures: list[str] = []
    sizes: list[float] = []
    until = time.monotonic() + seconds
    tasks = [client(number, until, waits, failures) for number in range(clients)]
    await asyncio.gather(record_memory(pid, until, sizes), *tasks)
    waits.sort()
    return {
        "requests": len(waits),
        "failures": failures,
        "median_s": round(waits[len(waits) // 2], 3),
        "p95_s": round(waits[int(0.95 * len(waits))], 3),
        "worst_s": round(waits[-1], 3),
        "memory_mb": [round(size) for size in sizes],
    }


def main(load: Callable[..., Any], description: str | None, port: int) -> None:
    """Read the options, run the load test, and print its summary as JSON."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=port)
    parser.add_argument("--pid", type=int, required=True, help="process of the server, to read its memory")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    print(json.dumps(asyncio.run(load(options.port, options.pid, options.clients, options.seconds))))

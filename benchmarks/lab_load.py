"""Load test of the lab: waiting times, failures and memory while many clients draw at once.

    torchcaps lab --port 8765 &
    python benchmarks/lab_load.py --port 8765 --pid $! --clients 50 --seconds 30

Every client sends the next drawing as soon as the last is answered, so the queue is always as long as there
are clients.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import time
from typing import Any

import psutil


def drawing(seed: int) -> list[list[float]]:
    """An image of a random stroke."""
    generator = random.Random(seed)
    image = [[0.0] * 28 for _ in range(28)]
    x, y, angle = generator.uniform(8, 20), generator.uniform(8, 20), generator.uniform(0, 2 * math.pi)
    for _ in range(60):
        angle += generator.uniform(-0.4, 0.4)
        x, y = min(max(x + math.cos(angle), 1), 26), min(max(y + math.sin(angle), 1), 26)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            image[int(y) + row][int(x) + column] = 1.0
    return image


async def client(port: int, number: int, until: float, waits: list[float], failures: list[str]) -> None:
    """Send drawings over one connection until the time is up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for turn in range(10**9):
            if time.monotonic() >= until:
                return
            body = json.dumps({"image": drawing(1000 * number + turn)}).encode()
            head = (
                f"POST /api/draw HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
                f"X-Session: client-{number}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            start = time.perf_counter()
            writer.write(head.encode() + body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            lines = answer.decode().lower().split("\r\n")
            length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
            content = await reader.readexactly(length)
            waits.append(time.perf_counter() - start)
            if not lines[0].startswith("http/1.1 200"):
                failures.append(f"{lines[0]}: {content[:200].decode()}")
    except (OSError, asyncio.IncompleteReadError) as error:
        failures.append(repr(error))
    finally:
        writer.close()


async def record_memory(pid: int, until: float, sizes: list[float]) -> None:
    """Record the server's resident memory in MB, ten times."""
    pause = (until - time.monotonic()) / 10
    for _ in range(10):
        await asyncio.sleep(pause)
        sizes.append(psutil.Process(pid).memory_info().rss / 1e6)


async def load(port: int, pid: int, clients: int = 50, seconds: float = 30) -> dict[str, Any]:
    """Run `clients` clients for `seconds` seconds and summarize."""
    waits: list[float] = []
    failures: list[str] = []
    sizes: list[float] = []
    until = time.monotonic() + seconds
    tasks = [client(port, number, until, waits, failures) for number in range(clients)]
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--pid", type=int, required=True, help="process of the server, to read its memory")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    summary = asyncio.run(load(options.port, options.pid, options.clients, options.seconds))
    print(json.dumps(summary, indent=1))

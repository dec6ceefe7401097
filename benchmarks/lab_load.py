"""Many people drawing at once: how long each waits, whether anything fails, what the server's memory does.

    torchcaps lab --port 8765 &
    python benchmarks/lab_load.py --port 8765 --pid $! --clients 50 --seconds 30

Every client asks for the next drawing as soon as the last is answered, which no hand does: the queue is
always as long as there are clients.
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
    """A stroke across a canvas, another for each seed."""
    hand = random.Random(seed)
    image = [[0.0] * 28 for _ in range(28)]
    x, y, angle = hand.uniform(8, 20), hand.uniform(8, 20), hand.uniform(0, 2 * math.pi)
    for _ in range(60):
        angle += hand.uniform(-0.4, 0.4)
        x, y = min(max(x + math.cos(angle), 1), 26), min(max(y + math.sin(angle), 1), 26)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
            image[int(y) + row][int(x) + column] = 1.0
    return image


async def client(port: int, number: int, until: float, waits: list[float], failures: list[str]) -> None:
    """Ask for drawings over one connection until the time is up."""
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
            begun = time.perf_counter()
            writer.write(head.encode() + body)
            await writer.drain()
            answer = await reader.readuntil(b"\r\n\r\n")
            lines = answer.decode().lower().split("\r\n")
            length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
            said = await reader.readexactly(length)
            waits.append(time.perf_counter() - begun)
            if not lines[0].startswith("http/1.1 200"):
                failures.append(f"{lines[0]}: {said[:200].decode()}")
    except (OSError, asyncio.IncompleteReadError) as fault:
        failures.append(repr(fault))
    finally:
        writer.close()


async def watch(pid: int, until: float, sizes: list[float]) -> None:
    """Note the server's resident memory, in MB, ten times over."""
    pause = (until - time.monotonic()) / 10
    for _ in range(10):
        await asyncio.sleep(pause)
        sizes.append(psutil.Process(pid).memory_info().rss / 1e6)


async def load(port: int, pid: int, clients: int = 50, seconds: float = 30) -> dict[str, Any]:
    """Let so many clients draw for so long."""
    waits: list[float] = []
    failures: list[str] = []
    sizes: list[float] = []
    until = time.monotonic() + seconds
    drawing_hands = [client(port, number, until, waits, failures) for number in range(clients)]
    await asyncio.gather(watch(pid, until, sizes), *drawing_hands)
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
    parser.add_argument("--pid", type=int, required=True, help="of the server, to watch its memory")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    given = parser.parse_args()
    print(json.dumps(asyncio.run(load(given.port, given.pid, given.clients, given.seconds)), indent=1))

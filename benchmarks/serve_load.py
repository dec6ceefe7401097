"""Load test of the server for predictions: waiting times, failures, batches and memory with many clients.

    torchcaps serve capsnet_small-mnist --port 8000 &
    python benchmarks/serve_load.py --port 8000 --pid $! --clients 50 --seconds 30

Every client sends the next PNG file of random strokes as soon as the last is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import time
from io import BytesIO
from typing import Any

import psutil
from PIL import Image

IMAGES_PER_CLIENT = 20


def drawing(seed: int) -> bytes:
    """A PNG file of a random stroke."""
    generator = random.Random(seed)
    image = Image.new("L", (28, 28))
    x, y, angle = generator.uniform(8, 20), generator.uniform(8, 20), generator.uniform(0, 2 * math.pi)
    for _ in range(60):
        angle += generator.uniform(-0.4, 0.4)
        x, y = min(max(x + math.cos(angle), 1), 25), min(max(y + math.sin(angle), 1), 25)
        image.paste(255, (int(x), int(y), int(x) + 2, int(y) + 2))
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


async def request(reader: Any, writer: Any, head: str, body: bytes = b"") -> tuple[str, bytes]:
    """Send one request over an open connection; returns the status line and the body of the answer."""
    writer.write(f"{head} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
    return lines[0], await reader.readexactly(length)


async def client(port: int, number: int, until: float, waits: list[float], failures: list[str]) -> None:
    """Send images over one connection until the time is up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    images = [drawing(IMAGES_PER_CLIENT * number + turn) for turn in range(IMAGES_PER_CLIENT)]
    try:
        turn = 0
        while time.monotonic() < until:
            start = time.perf_counter()
            status, content = await request(reader, writer, "POST /predict", images[turn % len(images)])
            waits.append(time.perf_counter() - start)
            if " 200 " not in f"{status} " or len(json.loads(content).get("predictions", [])) != 1:
                failures.append(f"{status}: {content[:200].decode()}")
            turn += 1
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        failures.append(repr(error))
    finally:
        writer.close()


async def health(port: int) -> dict[str, Any]:
    """What the server says about itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _, content = await request(reader, writer, "GET /health")
    writer.close()
    return json.loads(content)


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
    before = await health(port)
    until = time.monotonic() + seconds
    tasks = [client(port, number, until, waits, failures) for number in range(clients)]
    await asyncio.gather(record_memory(pid, until, sizes), *tasks)
    after = await health(port)
    waits.sort()
    batches = after["batches"] - before["batches"]
    return {
        "requests": len(waits),
        "failures": failures,
        "median_s": round(waits[len(waits) // 2], 3),
        "p95_s": round(waits[int(0.95 * len(waits))], 3),
        "worst_s": round(waits[-1], 3),
        "batches": batches,
        "images_per_batch": round((after["images"] - before["images"]) / max(1, batches), 1),
        "largest_batch": after["largest_batch"],
        "memory_mb": [round(size) for size in sizes],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--pid", type=int, required=True, help="process of the server, to read its memory")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    summary = asyncio.run(load(options.port, options.pid, options.clients, options.seconds))
    print(json.dumps(summary))

"""Load test of the server for predictions: waiting times, failures, batches and memory with many clients.

    torchcaps serve capsnet_small-mnist --port 8000 &
    python benchmarks/serve_load.py --port 8000 --pid $! --clients 50 --seconds 30

Every client sends the next PNG file of random strokes as soon as the last is answered.
"""

from __future__ import annotations

import asyncio
import json
import time
from io import BytesIO
from typing import Any

from http_load import drawing, main, request, run_clients
from PIL import Image

IMAGES_PER_CLIENT = 20


def png(seed: int) -> bytes:
    """A PNG file of a random stroke."""
    image = Image.new("L", (28, 28))
    image.putdata([round(255 * pixel) for row in drawing(seed) for pixel in row])
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


async def health(port: int) -> dict[str, Any]:
    """What the server says about itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _, content = await request(reader, writer, "GET /health")
    writer.close()
    return json.loads(content)


async def load(port: int, pid: int, clients: int = 50, seconds: float = 30) -> dict[str, Any]:
    """Run `clients` clients for `seconds` seconds and summarize."""

    async def client(number: int, until: float, waits: list[float], failures: list[str]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        images = [png(IMAGES_PER_CLIENT * number + turn) for turn in range(IMAGES_PER_CLIENT)]
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

    before = await health(port)
    summary = await run_clients(client, pid, clients, seconds)
    after = await health(port)
    batches = after["batches"] - before["batches"]
    return summary | {
        "batches": batches,
        "images_per_batch": round((after["images"] - before["images"]) / max(1, batches), 1),
        "largest_batch": after["largest_batch"],
    }


if __name__ == "__main__":
    main(load, __doc__, port=8000)

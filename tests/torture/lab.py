"""Good and hostile requests to `torchcaps lab` at once."""

from __future__ import annotations

import asyncio
import json
import random
import re
import runpy
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from support.tiny_runs import child_environment

drawing = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "http_load.py"))["drawing"]

GOOD_CLIENTS, HOSTILE_CLIENTS = 6, 10
PATIENCE = 60.0
"""Seconds that a good client waits for an answer."""
GROWTH = 1.15
"""How much more memory the server may use at the end than after a fifth of the time."""
BUSY = 429


def good_request(choose: random.Random) -> tuple[str, dict[str, Any] | None]:
    """An address, and a body that fits it; None for GET."""
    image = drawing(choose.randrange(10**6))
    points = [[choose.uniform(-1, 1), choose.uniform(-1, 1)] for _ in range(choose.randrange(2, 100))]
    requests: list[tuple[str, dict[str, Any] | None]] = [
        ("/", None),
        ("/docs", None),
        ("/static/js/main.js", None),
        ("/api/status", None),
        ("/api/examples", None),
        ("/api/toys", None),
        ("/api/draw", {"image": image}),
        ("/api/tweak", {"pose": [choose.uniform(-1, 1) for _ in range(16)], "target": choose.randrange(10)}),
        ("/api/votes", {"image": image, "routing": choose.choice(["dynamic", "kmeans", "em"])}),
        ("/api/shapes", None),
        (
            "/api/parts",
            {"parts": [{"kind": 1, "x": choose.uniform(-1, 1), "y": 0, "angle": 30, "scale": 0.3}]},
        ),
        ("/api/clusters", {"points": points, "kind": choose.choice(["full", "diagonal", "kmeans"])}),
        ("/api/attack", {"image": image, "epsilon": choose.uniform(0, 0.5)}),
        ("/api/overlap", {"image": [[choose.random() for _ in range(36)] for _ in range(36)]}),
    ]
    return choose.choice(requests)


def as_bytes(port: int, path: str, body: dict[str, Any] | None, session: str) -> bytes:
    """A request as it is sent."""
    content = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"X-Session: {session}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def answer(reader: asyncio.StreamReader) -> int:
    """Read one answer; returns its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    found = re.search(r"content-length: *(\d+)", head)
    if found:
        await reader.readexactly(int(found[1]))
    else:
        while (size := int(await reader.readline(), 16)) > 0:
            await reader.readexactly(size + 2)
        await reader.readline()
    return int(head.split()[1])


async def good_client(
    port: int, number: int, seed: int, until: float, counts: Counter[str], kept: list
) -> None:
    """Send good requests one after another, each on a connection of its own now and then."""
    choose = random.Random(f"good {seed} {number}")
    writer: asyncio.StreamWriter | None = None
    while time.monotonic() < until:
        path, body = good_request(choose)
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(as_bytes(port, path, body, f"good-{number}"))
            await writer.drain()
            status = await asyncio.wait_for(answer(reader), PATIENCE)
        except (OSError, EOFError, TimeoutError, asyncio.TimeoutError) as error:
            counts["failures"] += 1
            kept.append({"what": f"{path}: {error!r}"})
            writer = None
            continue
        counts["good"] += 1
        if status == BUSY:
            counts["busy"] += 1
        elif status != 200:
            counts["failures"] += 1
            kept.append({"what": f"{path}: status {status}"})
        if choose.random() < 0.2:
            writer.close()
            writer = None
        await asyncio.sleep(choose.uniform(0, 0.05))
    if writer is not None:
        writer.close()


def hostile_bytes(port: int, choose: random.Random) -> bytes:
    """A request that a server should refuse, or survive."""
    path, body = good_request(choose)
    good = as_bytes(port, path, body, f"hostile-{choose.randrange(5)}")
    host = f"Host: 127.0.0.1:{port}\r\n".encode()
    kind = choose.randrange(14)
    if kind == 0:
        return choose.randbytes(choose.randrange(1, 2000)) + b"\r\n\r\n"
    if kind == 1:
        return good.replace(b"127.0.0.1", b"evil.example", 1)
    if kind == 2:
        return b"POST /api/draw HTTP/1.1\r\n" + host + b"Content-Length: 999999999999\r\n\r\n{"
    if kind == 3:
        deep = b"[" * 50_000
        return b"POST /api/draw HTTP/1.1\r\n" + host + b"Content-Length: %d\r\n\r\n" % len(deep) + deep
    if kind == 4:
        return b"GET /static/../../../../etc/passwd HTTP/1.1\r\n" + host + b"\r\n"
    if kind == 5:
        return b"GET /%2e%2e/%2e%2e/etc/passwd%00 HTTP/1.1\r\n" + host + b"\r\n"
    if kind == 6:
        return b"GET / HTTP/1.1\r\n" + host + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n"
    if kind == 7:
        return choose.choice((b"DELETE", b"PUT", b"TRACE", b"OPTIONS", b"FOO")) + good[good.index(b" ") :]
    if kind == 8:
        content = bytearray(good)
        for _ in range(choose.randrange(1, 20)):
            content[choose.randrange(len(content))] = choose.randrange(256)
        return bytes(content)
    if kind == 9:
        return good[: choose.randrange(1, len(good))]
    values: list[Any] = [
        {"image": [[float("nan")] * 28] * 28}, {"image": [["a"] * 28] * 28}, {"image": [[0] * 28] * 27}, [],
        None, 7,
        {"image": [[1e308] * 28] * 28}, {"points": [[1e3, -1e3]] * 500, "clusters": 8, "iterations": 50},
        {"points": [[0, 0]] * 500, "clusters": 8, "kind": "full"}, {"pose": [10] * 16, "target": -1},
        {f"x{n}": n for n in range(10_000)}, {"image": "x" * 100_000}, {"pose": [1e-320] * 16, "target": 3},
    ]  # fmt: skip
    endpoint = choose.choice(
        ("draw", "tweak", "votes", "clusters", "attack", "overlap", "parts", "toy", "none")
    )
    return as_bytes(port, f"/api/{endpoint}", choose.choice(values), f"hostile-{choose.randrange(5)}")


async def hostile_client(
    port: int, number: int, seed: int, until: float, counts: Counter[str], kept: list
) -> None:
    """Send hostile requests; read the answer, or close the connection before it, or send slowly."""
    choose = random.Random(f"hostile {seed} {number}")
    while time.monotonic() < until:
        content = hostile_bytes(port, choose)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                if choose.random() < 0.1:
                    for byte in content[:20]:
                        writer.write(bytes([byte]))
                        await writer.drain()
                        await asyncio.sleep(0.02)
                    content = content[20:]
                writer.write(content)
                await writer.drain()
                counts["hostile"] += 1
                if choose.random() < 0.7:
                    status = await asyncio.wait_for(answer(reader), 2)
                    if status >= 500:
                        counts["failures"] += 1
                        kept.append({"what": f"status {status} for {content[:300]!r}"})
            finally:
                writer.close()
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.TimeoutError, asyncio.LimitOverrunError):
            pass  # a hostile client may be disconnected
        await asyncio.sleep(choose.uniform(0, 0.1))


async def watch(pid: int, seconds: int, sizes: list[float], progress: Callable[[int], None]) -> None:
    """Record the server's memory in MB once a second."""
    for _ in range(seconds):
        await asyncio.sleep(1)
        if psutil.pid_exists(pid):
            sizes.append(psutil.Process(pid).memory_info().rss / 1e6)
        progress(1)


async def attack(
    port: int, pid: int, seed: int, seconds: int, progress: Callable[[int], None]
) -> tuple[Counter[str], list[dict[str, Any]]]:
    """All clients at once, then a last good request."""
    counts: Counter[str] = Counter()
    kept: list[dict[str, Any]] = []
    sizes: list[float] = []
    until = time.monotonic() + seconds
    good = [good_client(port, each, seed, until, counts, kept) for each in range(GOOD_CLIENTS)]
    bad = [hostile_client(port, each, seed, until, counts, kept) for each in range(HOSTILE_CLIENTS)]
    await asyncio.gather(watch(pid, seconds, sizes, progress), *good, *bad)
    before = counts["good"]
    await good_client(port, 99, seed, time.monotonic() + 2, counts, kept)
    if counts["good"] == before:
        counts["failures"] += 1
        kept.append({"what": "the server does not answer at the end"})
    early, late = sizes[len(sizes) // 5], sizes[-1]
    counts["memory MB"] = round(late)
    if late > GROWTH * early:
        counts["failures"] += 1
        kept.append({"what": f"memory grows from {early:.0f} to {late:.0f} MB"})
    return counts, kept


def run(
    seed: int, seconds: int, progress: Callable[[int], None]
) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Start a lab, attack it, and stop it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "torchcaps", "lab", "--port", "0"],
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+:(\d+)/", process.stdout.readline())
        if found is None:
            raise RuntimeError("the lab did not start")
        return asyncio.run(attack(int(found[1]), process.pid, seed, seconds, progress))
    finally:
        process.kill()
        process.wait()

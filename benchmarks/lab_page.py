"""How fast the lab answers one visitor: start, first load, drawing, and dragging a shape.

    python benchmarks/lab_page.py

Starts the lab, opens it in Chromium with Playwright, and prints one JSON object. Run it on an idle machine.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import shutil
import subprocess
import sys
import time
from typing import Any

from http_load import drawing, request
from playwright.sync_api import sync_playwright

DRAWINGS = 200
SECONDS = 8.0  # of dragging
STEP = 0.008  # seconds between two moves of the mouse, as from a fast one


def main() -> None:
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "torchcaps", "lab", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        match = re.search(r"http://\S+:(\d+)/", process.stdout.readline())
        assert match, "the lab did not start"
        port = int(match[1])
        result: dict[str, Any] = {"start_s": round(time.perf_counter() - start, 2)}
        result.update(asyncio.run(draw(port)))
        result.update(browse(f"http://127.0.0.1:{port}"))
    finally:
        process.terminate()
        process.wait()
    print(json.dumps(result))


async def draw(port: int) -> dict[str, Any]:
    """Waiting times of one client that sends one drawing after another, after ten to warm up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    waits = []
    for turn in range(DRAWINGS + 10):
        body = json.dumps({"image": drawing(turn)}).encode()
        start = time.perf_counter()
        status, content = await request(
            reader, writer, "POST /api/draw\r\nContent-Type: application/json\r\nX-Session: page", body
        )
        assert status.startswith("http/1.1 200"), content[:200]
        waits.append(1000 * (time.perf_counter() - start))
    writer.close()
    waits = sorted(waits[10:])
    return {
        "draw_median_ms": round(waits[len(waits) // 2], 1),
        "draw_p95_ms": round(waits[int(0.95 * len(waits))], 1),
    }


def browse(url: str) -> dict[str, Any]:
    """Bytes of the first load, and how often per second the tree is updated while a shape is dragged."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert path, "Chromium is missing"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        sizes: list[int] = []
        page.on("requestfinished", lambda each: sizes.append(sum_sizes(each.sizes())))
        page.goto(url)
        page.locator("#stage[aria-busy=false]").wait_for()
        page.wait_for_load_state("networkidle")
        loaded = sum(sizes)
        page.goto(f"{url}/#parts")
        shape = page.locator("#view-parts .object").first
        shape.wait_for()
        page.wait_for_load_state("networkidle")
        answers: list[float] = []
        page.on("response", lambda each: "/api/parts" in each.url and answers.append(time.perf_counter()))
        box = shape.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        start, now = time.perf_counter(), time.perf_counter()
        while now < start + SECONDS:
            angle = 2 * math.pi * (now - start) / 2
            page.mouse.move(x + 60 * math.cos(angle), y + 60 * math.sin(angle))
            page.wait_for_timeout(1000 * STEP)
            now = time.perf_counter()
        page.mouse.up()
        browser.close()
    during = [each for each in answers if start <= each <= now]
    return {"first_load_kB": round(loaded / 1000), "drag_updates_per_s": round(len(during) / SECONDS, 1)}


def sum_sizes(sizes: dict[str, int]) -> int:
    return sizes["responseBodySize"] + sizes["responseHeadersSize"]


if __name__ == "__main__":
    main()

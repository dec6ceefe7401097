"""How fast the lab answers one visitor: start, first load, drawing, and dragging a shape.

    python benchmarks/lab_page.py

Starts the lab, opens it in Chromium with Playwright, and prints one JSON object. Run it on an idle machine.
"""

from __future__ import annotations

import asyncio
import json
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
# Moves the mouse once per frame, as a browser passes on the moves of a real one, and counts the answers.
# Moved from outside the page, each move would wait for the page: about 20 in a second, whatever it can do.
DRAG = """(shape, [x, y, duration]) => new Promise((resolve) => {
  const start = performance.now();
  let frames = 0;
  let answers = 0;
  new PerformanceObserver((list) => {
    answers += list.getEntries().filter((entry) => entry.name.includes("/api/parts")).length;
  }).observe({ type: "resource" });
  const move = (now) => {
    if (now > start + duration) return resolve([frames, answers]);
    const angle = Math.PI * (now - start) / 1000;
    const place = { clientX: x + 60 * Math.cos(angle), clientY: y + 60 * Math.sin(angle) };
    const options = { pointerId: 1, isPrimary: true, bubbles: true, ...place };
    shape.dispatchEvent(new PointerEvent("pointermove", options));
    frames += 1;
    requestAnimationFrame(move);
  };
  requestAnimationFrame(move);
})"""


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
        count = lambda each: sizes.append(sum_sizes(each.sizes()))  # noqa: E731
        page.on("requestfinished", count)
        page.goto(url)
        page.locator("#stage[aria-busy=false]").wait_for()
        page.wait_for_load_state("networkidle")
        loaded = sum(sizes)
        page.remove_listener("requestfinished", count)
        page.goto(f"{url}/#parts")
        shape = page.locator("#view-parts .object").first
        shape.wait_for()
        page.wait_for_load_state("networkidle")
        box = shape.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        frames, answers = shape.evaluate(DRAG, [x, y, 1000 * SECONDS])
        page.mouse.up()
        browser.close()
    return {
        "first_load_kB": round(loaded / 1000),
        "drag_updates_per_s": round(answers / SECONDS, 1),
        "drag_frames_per_s": round(frames / SECONDS, 1),
    }


def sum_sizes(sizes: dict[str, int]) -> int:
    return sizes["responseBodySize"] + sizes["responseHeadersSize"]


if __name__ == "__main__":
    main()

"""Looking at the lab as a person would: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from lab_models import CARDS

from torchcaps.lab.server import create_app
from torchcaps.lab.weights import NEEDED, Key, Shelf
from torchcaps.training import load_weights

SHOTS = Path(__file__).parents[2] / "artifacts" / "lab"
# What a canvas shows, coarsely: browsers may blend the same picture a shade differently the second time.
DRAWN = """canvas => {
  const small = new OffscreenCanvas(32, 32).getContext("2d");
  small.drawImage(canvas, 0, 0, 32, 32);
  return Array.from(small.getImageData(0, 0, 32, 32).data, (value) => value >> 4).join();
}"""


def chromium() -> str | None:
    """Where Chromium lies, if it is there."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def stocked_shelf() -> tuple[Shelf, set[Key]]:
    """All networks of the lab, and which of them are trained: those that ship with the package."""
    networks, trained = {}, set()
    for key in NEEDED:
        try:
            from torchcaps.models import pretrained_path

            networks[key] = load_weights(pretrained_path(*key))
            trained.add(key)
        except (ImportError, ValueError, OSError):
            networks[key] = (CARDS[key].build(), CARDS[key])
    return Shelf(networks), trained


def inside_window(page: Any, element: Any) -> bool:
    """Whether an element is seen without scrolling."""
    box, window = element.bounding_box(), page.viewport_size
    return bool(box["y"] >= 0 and box["y"] + box["height"] <= window["height"])


@contextmanager
def served(shelf: Shelf) -> Iterator[str]:
    """A lab that listens on a free port; its address."""
    import uvicorn

    from torchcaps.cli.lab import bound

    listener = bound("127.0.0.1", 0)  # early visitors wait until the server takes them
    server = uvicorn.Server(uvicorn.Config(create_app(shelf), log_level="warning"))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)
    listener.close()


@dataclass
class Visit:
    """A page of the lab, and everything that went wrong on it."""

    page: Any
    address: str
    name: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        here = urlsplit(self.address).netloc
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.complaints.append(m.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "request",
            lambda r: urlsplit(r.url).netloc not in (here, "") and self.complaints.append(f"asked {r.url}"),
        )

    def open(self, view: str) -> Any:
        """Go to a view and wait for its first answer; the view."""
        self.page.goto(f"{self.address}/#{view}")
        shown = self.page.locator(f"#view-{view}")
        shown.wait_for()
        shown.locator(".card").first.wait_for(state="attached")
        self.settle()
        return shown

    def settle(self) -> None:
        """Wait until no answer is awaited."""
        self.page.locator("#stage[aria-busy=false]").wait_for()

    def answered(self, path: str, act: Callable[[], Any]) -> dict[str, Any]:
        """Do something that asks the server, and wait for what it says."""
        with self.page.expect_response(f"**/api/{path}") as waiting:
            act()
        self.settle()
        assert waiting.value.ok, waiting.value.text()
        return waiting.value.json()

    def changes(self, canvas: Any, act: Callable[[], Any]) -> None:
        """Do something, and wait until the canvas shows something else."""
        before = canvas.evaluate("canvas => canvas.toDataURL()")
        act()
        self.page.wait_for_function(
            "([canvas, before]) => canvas.toDataURL() !== before", arg=[canvas.element_handle(), before]
        )

    def stroke(self, canvas: Any, *points: tuple[float, float]) -> None:
        """Draw a line with the mouse through points given in 0..1 of an element."""
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
        self.page.mouse.move(*places[0])
        self.page.mouse.down()
        for place in places[1:]:
            self.page.mouse.move(*place, steps=8)
        self.page.mouse.up()

    def finish(self, view: str) -> None:
        """Keep a picture; hold the page to what every view owes: nothing complains, nothing sticks out."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.mouse.move(0, 0)
        self.page.evaluate("scrollTo(0, 0)")
        self.page.screenshot(path=SHOTS / f"{view}-{self.name}.png", full_page=True)
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} px stick out"
        assert not self.complaints, self.complaints

"""Opens the lab in Debian's Chromium with Playwright, and acts like a user."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from support.lab_models import CARDS
from torchcaps.lab.model_store import REQUIRED_MODELS, ModelKey, ModelStore
from torchcaps.lab.run import LabRun
from torchcaps.lab.server import create_app
from torchcaps.training import load_weights

SCREENSHOTS = Path(__file__).parents[2] / "artifacts" / "lab"
# A coarse copy of a canvas: a browser may blend the same picture slightly differently the second time.
THUMBNAIL = """canvas => {
  const small = new OffscreenCanvas(32, 32).getContext("2d");
  small.drawImage(canvas, 0, 0, 32, 32);
  return Array.from(small.getImageData(0, 0, 32, 32).data, (value) => value >> 4).join();
}"""


def chromium() -> str | None:
    """The path of Chromium, if it is installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def full_store() -> tuple[ModelStore, set[ModelKey]]:
    """All networks of the lab, and the keys of those that are trained: the ones in the package."""
    networks, trained = {}, set()
    for key in REQUIRED_MODELS:
        try:
            from torchcaps.models import pretrained_path

            networks[key] = load_weights(pretrained_path(*key))
            trained.add(key)
        except (ImportError, ValueError, OSError):
            networks[key] = (CARDS[key].build(), CARDS[key])
    return ModelStore(networks), trained


def inside_window(page: Any, element: Any) -> bool:
    """Whether an element is visible without scrolling."""
    box, window = element.bounding_box(), page.viewport_size
    return bool(box["y"] >= 0 and box["y"] + box["height"] <= window["height"])


@contextmanager
def serve(store: ModelStore, token: str | None = None, run: LabRun | None = None) -> Iterator[str]:
    """Run a lab on a free port; yields its URL."""
    from torchcaps.cli.listening import bind_socket
    from torchcaps.web.connections import create_server

    listener = bind_socket("127.0.0.1", 0)  # connections wait here until the server accepts them
    server = create_server(create_app(store, token=token, run=run))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)
    listener.close()


@dataclass
class Visit:
    """A page of the lab, and the errors that occurred on it."""

    page: Any
    url: str
    name: str
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        host = urlsplit(self.url).netloc
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.errors.append(m.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "request",
            lambda r: urlsplit(r.url).netloc not in (host, "") and self.errors.append(f"requested {r.url}"),
        )

    def open(self, name: str) -> Any:
        """Open `name` or `name?setting=value`, wait for its first response, and return the view."""
        self.page.goto(f"{self.url}/#{name}")
        view = self.page.locator(f"#view-{name.split('?')[0]}")
        view.wait_for()
        view.locator(".card").first.wait_for(state="attached")
        self.wait_idle()
        return view

    def wait_idle(self) -> None:
        """Wait until no request is pending."""
        self.page.locator("#stage[aria-busy=false]").wait_for()

    def response_to(self, endpoint: str, action: Callable[[], Any]) -> dict[str, Any]:
        """Do something that sends a request, and return the response."""
        with self.page.expect_response(f"**/api/{endpoint}") as response:
            action()
        self.wait_idle()
        assert response.value.ok, response.value.text()
        return response.value.json()

    def expect_change(self, canvas: Any, action: Callable[[], Any]) -> None:
        """Do something, and wait until the canvas shows another picture."""
        before = canvas.evaluate("canvas => canvas.toDataURL()")
        action()
        self.page.wait_for_function(
            "([canvas, before]) => canvas.toDataURL() !== before", arg=[canvas.element_handle(), before]
        )

    def stroke(self, canvas: Any, *points: tuple[float, float]) -> None:
        """Draw a line with the mouse; points are fractions of the element's size."""
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
        self.page.mouse.move(*places[0])
        self.page.mouse.down()
        for place in places[1:]:
            self.page.mouse.move(*place, steps=8)
        self.page.mouse.up()

    def finish(self, view: str) -> None:
        """Save a screenshot, and check what holds for every view: no errors, no horizontal overflow."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.mouse.move(0, 0)
        self.page.evaluate("scrollTo(0, 0)")
        self.page.screenshot(path=SCREENSHOTS / f"{view}-{self.name}.png", full_page=True)
        overflow = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0, f"the page is {overflow} px wider than the window"
        assert not self.errors, self.errors

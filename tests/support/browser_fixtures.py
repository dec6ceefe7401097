"""A running lab and a browser; skips if Chromium or Playwright is missing.

Scoped to one module: Playwright keeps an event loop running, in which other tests could not run theirs.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from support.browser import Visit, chromium, full_store, serve
from torchcaps.lab.model_store import ModelKey, ModelStore

# A phone and a wide screen, in light and dark themes.
SCREENS = [
    pytest.param((390, "dark"), id="390-dark"),
    pytest.param((1440, "light"), id="1440-light"),
    pytest.param((390, "light"), id="390-light", marks=pytest.mark.slow),
    pytest.param((1440, "dark"), id="1440-dark", marks=pytest.mark.slow),
]


@pytest.fixture(params=SCREENS)
def visit(request: pytest.FixtureRequest, browser: Any, lab: str) -> Iterator[Visit]:
    """The lab's page on each screen."""
    width, theme = request.param
    page = browser.new_page(
        viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce"
    )
    yield Visit(page, lab, f"{width}-{theme}")
    page.close()


@pytest.fixture(scope="module")
def networks() -> tuple[ModelStore, set[ModelKey]]:
    return full_store()


@pytest.fixture(scope="module")
def trained(networks: tuple[ModelStore, set[ModelKey]]) -> set[ModelKey]:
    return networks[1]


@pytest.fixture(scope="module")
def lab(networks: tuple[ModelStore, set[ModelKey]]) -> Iterator[str]:
    with serve(networks[0]) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is missing: pip install playwright"
    )
    path = chromium()
    if path is None:
        pytest.skip("Chromium is missing: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()

"""A lab that runs and a browser to visit it; without Chromium or Playwright, a reason to skip.

Kept for one module at a time: Playwright holds an event loop, in which other tests could not run theirs.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from browser import chromium, served, stocked_shelf

from torchcaps.lab.weights import Key, Shelf


@pytest.fixture(scope="module")
def stock() -> tuple[Shelf, set[Key]]:
    return stocked_shelf()


@pytest.fixture(scope="module")
def trained(stock: tuple[Shelf, set[Key]]) -> set[Key]:
    return stock[1]


@pytest.fixture(scope="module")
def lab(stock: tuple[Shelf, set[Key]]) -> Iterator[str]:
    with served(stock[0]) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright here: pip install playwright"
    )
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()

"""Share and keep: images come in, pictures and numbers go out, and a reload loses nothing."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support.browser import Visit

pytest_plugins = ["support.browser_fixtures"]


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "share")
    page.close()


def photo(digit: list[list[float]], kind: str, light: bool = True) -> bytes:
    """A digit as an image file: 300 × 400 pixels, the digit small and in a corner, in color."""
    ink = Image.fromarray((np.array(digit) * 255).astype("uint8")).resize(
        (140, 140), Image.Resampling.BICUBIC
    )
    pixels = np.zeros((400, 300))
    pixels[220:360, 30:170] = np.asarray(ink) / 255
    back, front = np.array([240, 232, 210]), np.array([30, 30, 120])
    if not light:
        back, front = front, back
    colors = back + pixels[..., None] * (front - back)
    file = io.BytesIO()
    Image.fromarray(colors.round().astype("uint8")).save(file, kind)
    return file.getvalue()


def example(visit: Visit, label: int) -> list[list[float]]:
    digits = visit.page.evaluate("fetch('api/examples').then(answer => answer.json())")["digits"]
    return next(digit["image"] for digit in digits if digit["label"] == label)


def sent_by(visit: Visit, action: Callable[[], Any]) -> np.ndarray:
    """The image that the page sends to the network."""
    with visit.page.expect_request("**/api/draw") as request:
        action()
    visit.wait_idle()
    return np.array(request.value.post_data_json["image"])


@pytest.mark.parametrize(
    ("kind", "light"), [("PNG", True), ("PNG", False), ("JPEG", True), ("WEBP", True), ("GIF", False)]
)
def test_an_image_becomes_a_centered_digit(visit: Visit, kind: str, light: bool) -> None:
    view = visit.open("draw")
    digit = example(visit, 4)
    file = {"name": f"4.{kind.lower()}", "mimeType": f"image/{kind.lower()}"}
    image = sent_by(
        visit,
        lambda: view.locator("input[type=file]").set_input_files(
            {**file, "buffer": photo(digit, kind, light)}  # type: ignore[dict-item]
        ),
    )
    assert image.shape == (28, 28)
    rows, columns = np.indices(image.shape)
    middle = [(image * at).sum() / image.sum() for at in (rows, columns)]
    assert np.abs(np.array(middle) - 14).max() <= 1, "the center of mass is in the middle"
    found = np.argwhere(image > 0.1)
    assert 18 <= (np.ptp(found, axis=0) + 1).max() <= 22, "in a box of 20 pixels"
    assert np.corrcoef(image.ravel(), np.array(digit).ravel())[0, 1] > 0.85, "the digit that was on the image"
    assert view.locator(".verdict .big").inner_text() == "4"
    assert visit.errors == []


def test_an_image_can_be_pasted(visit: Visit) -> None:
    view = visit.open("draw")
    pixels = list(photo(example(visit, 7), "PNG"))
    sent_by(
        visit,
        lambda: visit.page.evaluate(
            """bytes => {
              const clipboardData = new DataTransfer();
              clipboardData.items.add(new File([new Uint8Array(bytes)], "7.png", { type: "image/png" }));
              document.dispatchEvent(new ClipboardEvent("paste", { clipboardData }));
            }""",
            pixels,
        ),
    )
    assert view.locator(".verdict .big").inner_text() == "7"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"no image", "not an image that the browser can read"), (None, "one color only")],
    ids=["broken", "blank"],
)
def test_a_useless_image_is_reported(visit: Visit, content: bytes | None, message: str) -> None:
    view = visit.open("draw")
    before = view.locator(".bars .value").all_inner_texts()
    buffer = photo(np.zeros((28, 28)).tolist(), "PNG") if content is None else content
    view.locator("input[type=file]").set_input_files(
        {"name": "x.png", "mimeType": "image/png", "buffer": buffer}
    )
    visit.page.locator("#status").get_by_text(message).wait_for()
    assert view.locator(".bars .value").all_inner_texts() == before


def saved(visit: Visit, name: str) -> Path:
    visit.page.locator("#save summary").click()
    with visit.page.expect_download() as download:
        visit.page.get_by_role("button", name=name).click()
    return Path(download.value.path())


@pytest.mark.parametrize("name", ["draw", "overlap"])
def test_numbers_can_be_saved(visit: Visit, name: str) -> None:
    view = visit.open(name)
    shown = [float(text) for text in view.locator(".bars").first.locator(".value").all_inner_texts()]
    rows = list(csv.reader(saved(visit, "Table").read_text().splitlines()))
    assert [float(row[1]) for row in rows[1:]] == pytest.approx(shown, abs=0.0051)
    assert rows[0][0] == "digit"
    data = json.loads(saved(visit, "Numbers").read_text())
    assert data["view"] == name
    lengths = data["lengths"] if name == "draw" else data["capsules"]["lengths"]
    assert lengths == pytest.approx(shown, abs=0.0051)
    assert np.array(data["image"]).ndim == 2
    assert visit.errors == []


NUMBERS = {
    "tweak": ("dimension", 16, lambda data: len(data["pose"])),
    "votes": (
        "network",
        14 * 10,
        lambda data: 10 * sum(map(count_iterations, [data["votes"], *data["twins"]])),
    ),
    "parts": ("level", 7, lambda data: sum(len(data[level]) for level in ("groups", "wholes", "parts"))),
    "toy": ("category", 5, lambda data: len(data["cnn"]["scores"])),
    "clusters": ("x", 140, lambda data: len(data["points"])),
    "attack": ("network", 2 * 26, lambda data: 2 * len(data["epsilons"])),
    "compare": ("network", 20, lambda data: sum(len(each["scores"]) for each in data["results"])),
}


def count_iterations(routed: dict[str, Any]) -> int:
    return len(routed["iterations"])


@pytest.mark.parametrize("name", NUMBERS)
def test_the_numbers_of_every_view_can_be_saved(visit: Visit, name: str) -> None:
    first, rows, count = NUMBERS[name]
    visit.open("draw")
    visit.open(name)
    table = list(csv.reader(saved(visit, "Table").read_text().splitlines()))
    assert table[0][0] == first
    assert {len(row) for row in table} == {len(table[0])}
    data = json.loads(saved(visit, "Numbers").read_text())
    assert len(table) - 1 == count(data)
    assert len(table) - 1 == pytest.approx(rows, abs=20)
    assert visit.errors == []


@pytest.mark.parametrize("name", ["draw", "overlap", "votes", "parts", "clusters"])
def test_a_picture_of_a_view_shows_what_the_page_shows(visit: Visit, name: str) -> None:
    view = visit.open(name)
    visit.page.mouse.move(0, 0)
    picture = Image.open(saved(visit, "Picture")).convert("RGB")
    box = view.bounding_box()
    assert picture.size == pytest.approx((2 * box["width"] + 64, 2 * box["height"] + 64), abs=2)
    picture = picture.crop((32, 32, picture.width - 32, picture.height - 32))
    screen = Image.open(io.BytesIO(view.screenshot())).convert("RGB")
    small = [np.asarray(image.resize((150, 100)), dtype=float).ravel() for image in (picture, screen)]
    assert np.corrcoef(*small)[0, 1] > 0.9
    assert visit.errors == []


def test_the_menu_is_for_keyboards_too(visit: Visit) -> None:
    visit.open("draw")
    visit.page.locator("#save summary").press("Enter")
    first = visit.page.get_by_role("button", name="Picture")
    visit.page.wait_for_function("button => button === document.activeElement", arg=first.element_handle())
    visit.page.keyboard.press("Escape")
    assert first.is_hidden()
    assert visit.page.locator("#save summary").evaluate("element => element === document.activeElement")


def test_a_reload_keeps_both_digits_and_their_places(visit: Visit) -> None:
    view = visit.open("overlap")
    visit.response_to("overlap", view.get_by_role("button", name="New pair").click)
    visit.response_to("overlap", lambda: view.get_by_role("button", name="Move the first").press("ArrowDown"))
    values = view.locator(".bars .value").all_inner_texts()
    visit.page.get_by_role("tab", name="Draw").click()
    visit.wait_idle()
    visit.page.reload()  # on another view: the settings of this one are not in the address
    visit.wait_idle()
    visit.page.get_by_role("tab", name="Overlap").click()
    view.locator(".verdict .big:not(:empty)").first.wait_for()
    visit.wait_idle()
    assert view.locator(".bars .value").all_inner_texts() == values
    assert "first=" in visit.page.url, "the address can be shared again"


@pytest.mark.parametrize(
    "name",
    [
        "draw",
        "tweak",
        "overlap",
        "votes",
        "parts",
        "toy",
        "clusters",
        "attack",
        "compare?a=matrix_capsnet_small-toys",
    ],
)
def test_a_reload_keeps_the_settings_of_every_view(visit: Visit, name: str) -> None:
    """The address is the same before and after, and so are the controls."""
    if name == "tweak":
        visit.open("draw")
    view = visit.open(name)
    sliders = view.locator("input[type=range]:enabled:visible")
    if name != "draw":  # a sequence starts anew; in Draw it is a picture among others
        sliders = sliders.and_(view.locator(".slider input"))
    for slider in sliders.all()[:2]:
        slider.press("ArrowLeft")
    visit.wait_idle()
    visit.page.wait_for_timeout(400)  # the address follows a drag three times in a second
    controls = "view => [...view.querySelectorAll('input')].map(input => [input.value, input.checked].join())"
    before, address = view.evaluate(controls), visit.page.url
    visit.page.reload()
    view.locator(".card").first.wait_for(state="attached")
    visit.wait_idle()
    assert visit.page.url == address
    assert view.evaluate(controls) == before


def test_a_link_with_other_settings_opens_in_an_open_page(visit: Visit) -> None:
    view = visit.open("toy")
    visit.page.evaluate("location.hash = '#toy?category=2&azimuth=100'")
    visit.page.wait_for_function(
        "() => document.querySelector('#view-toy [aria-valuenow]')?.getAttribute('aria-valuenow') === '100'"
    )
    visit.wait_idle()
    assert view.get_by_role("radio").nth(2).is_checked()
    assert visit.errors == []

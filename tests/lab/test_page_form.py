"""Form: colors with one role each, five font sizes, verdicts in sight, a small first load."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from support.browser import Visit, inside_window
from support.color_vision import color_difference
from torchcaps import lab as lab_package

pytest_plugins = ["support.browser_fixtures"]

STYLE = Path(lab_package.__file__).parent / "static" / "style"
# Colors that tell things apart in one picture.
TOGETHER = [
    ("first", "second"),
    ("more", "less", "accent", "above"),
    ("accent", "cnn"),
    tuple(f"c{index}" for index in range(8)),
]
MAX_FIRST_LOAD = 600_000  # bytes


def themes() -> list[dict[str, str]]:
    """The colors of the light and of the dark theme."""
    rules = (STYLE / "tokens.css").read_text().split("}")[:2]
    return [dict(re.findall(r"--([\w-]+): (#\w{6})", rule)) for rule in rules]


@pytest.mark.parametrize("eyes", ["normal", "protan", "deutan", "tritan"])
@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names[0])
def test_colors_that_are_used_together_differ_for_all_eyes(names: tuple[str, ...], eyes: str) -> None:
    for theme in themes():
        for one, two in itertools.combinations(names, 2):
            assert color_difference(theme[one], theme[two], eyes) >= 10, (one, two)


def test_each_color_has_one_role() -> None:
    for theme in themes():
        names = ("control", "accent", "cnn", "first", "second", "more", "less", "above")
        roles = [theme[name] for name in names]
        clusters = [theme[f"c{index}"] for index in range(8)]
        assert len(set(roles + clusters)) == len(roles + clusters)
    # Controls are gray: a slider or a pressed button says nothing about the network.
    assert "--accent" not in (STYLE / "controls.css").read_text()


def test_texts_name_the_colors_that_the_page_has() -> None:
    """Only values above and below zero are named by their colors, in both themes purple and green."""
    for path in (STYLE.parent / "js").rglob("*.js"):
        texts = " ".join(re.findall(r'"(?:[^"\\]|\\.)*"|`[^`]*`', path.read_text("utf-8")))
        assert not re.search(r"\b(orange|blue|red|yellow)\b|[橙蓝红黄]色", texts, re.IGNORECASE), path.name
    for theme in themes():
        red, green, blue = (int(theme["more"][at : at + 2], 16) for at in (1, 3, 5))
        assert green < red < blue, "purple"
        red, green, blue = (int(theme["less"][at : at + 2], 16) for at in (1, 3, 5))
        assert red < blue < green, "green"


def test_the_page_has_five_font_sizes() -> None:
    css = "".join(path.read_text() for path in STYLE.glob("*.css"))
    defined = dict(re.findall(r"--(size-\d): ([^;]+);", css))
    assert len(set(defined.values())) == len(defined) == 5
    values = re.findall(r"(?:font-size|font): ([^;}]+)", css)
    sizes = {value for value in values if "var(--size-" not in value and value != "inherit"}
    # The labels of a scene are in the coordinates of its board.
    assert {value for value in sizes if "0.085px" not in value} == set()
    assert {size for value in values for size in re.findall(r"var\(--(size-\d)\)", value)} == set(defined)


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_verdicts_are_in_sight_and_the_content_starts_high(
    browser: Any, lab: str, width: int, height: int, locale: str
) -> None:
    page = browser.new_page(
        viewport={"width": width, "height": height}, reduced_motion="reduce", locale=locale
    )
    visit = Visit(page, lab, "sight")
    for name, start in (("draw", 260 if width < 700 else 190), ("overlap", 260 if width < 700 else 190)):
        view = visit.open(name)
        assert view.locator(".stage > :visible").first.bounding_box()["y"] <= start
        for verdict in view.locator(".verdict").all():
            assert inside_window(page, verdict), name
    for name in ("tweak", "votes", "parts", "toy", "clusters", "attack", "compare"):
        answers = visit.open(name).locator(".verdict:visible")
        number = 2 if name in ("parts", "toy", "compare") else 1  # one for each network
        for verdict in answers.all()[:number]:
            assert inside_window(page, verdict), name
    view = visit.open("overlap")
    board = view.locator("canvas.grab")
    board.scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, 500)")
    for verdict in view.locator(".verdict").all():
        assert inside_window(page, verdict), "the verdicts of Overlap stay while the page is scrolled"
    page.close()


def test_the_first_load_is_small(browser: Any, lab: str) -> None:
    page = browser.new_page(locale="zh-CN")  # the larger of the two languages
    sizes: list[int] = []
    page.on("response", lambda response: sizes.append(len(response.body())))
    Visit(page, lab, "size").open("draw")
    assert len(sizes) > 20
    assert sum(sizes) <= MAX_FIRST_LOAD, sum(sizes)
    page.close()

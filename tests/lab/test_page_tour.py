"""The tour: each step moves the controls, and its sentence holds for what is then shown."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.browser import THUMBNAIL, Visit

pytest_plugins = ["support.browser_fixtures"]

STEPS = 9


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "tour")
    page.close()


def start(visit: Visit) -> Any:
    visit.open("draw").get_by_role("button", name="Start the tour").click()
    bar = visit.page.get_by_role("region", name="Tour").locator("visible=true").last
    visit.page.locator(".tour[aria-busy=false]").wait_for()
    return bar


def go(visit: Visit, name: str) -> str:
    """Press a button of the bar, wait for the step, and return its sentence."""
    visit.page.locator(".tour").get_by_role("button", name=name).click()
    visit.page.locator(".tour[aria-busy=false]").wait_for()
    return sentence(visit)


def sentence(visit: Visit) -> str:
    return visit.page.locator(".tour p").inner_text()


def headlines(visit: Visit, view: str) -> list[str]:
    return visit.page.locator(f"#view-{view} .verdict .big").all_inner_texts()


def exports(visit: Visit, endpoint: str, action: Callable[[], Any]) -> list[Any]:
    answers: list[Any] = []
    visit.page.on(
        "response", lambda response: response.url.endswith(f"/api/{endpoint}") and answers.append(response)
    )
    action()
    return [answer.json() for answer in answers if answer.ok]


def test_each_sentence_holds_for_what_is_shown(visit: Visit) -> None:
    page = visit.page
    drawn = exports(visit, "draw", lambda: start(visit))[-1]
    best, length = drawn["best"], max(drawn["lengths"])
    assert best == 2
    assert f"that of {best} is the longest, with length {length:.2f}" in sentence(visit)
    assert headlines(visit, "draw") == [str(best)]
    assert page.locator(".tour .count").inner_text() == f"1 of {STEPS}"

    text = go(visit, "Next")
    assert f"{drawn['grid'][0] * drawn['grid'][1]} positions have primary capsules" in text
    assert f"the longest of the ten digit capsules, {best}" in text
    assert page.locator(".network-strip li").count() == 7

    text = go(visit, "Next")
    assert f"the {len(drawn['couplings'])} iterations" in text
    first, last = ([sum(map(sum, grid)) for grid in drawn["couplings"][step]] for step in (0, -1))
    assert max(first) == pytest.approx(min(first), rel=1e-3), "at first the same share"
    assert f"in the end {best} gets more" in text
    assert last.index(max(last)) == best
    count = page.locator("#view-draw .player .count").inner_text()
    assert count == f"{len(drawn['couplings'])} of {len(drawn['couplings'])}"

    text = go(visit, "Next")
    slider = page.locator("[data-tour=tweak]")
    before, after = map(float, re.findall(r"-?\d\.\d\d", text))
    assert before != after
    assert float(slider.input_value()) == pytest.approx(after, abs=0.006)
    assert page.url.endswith("#tweak") or "#tweak?" in page.url

    answers = exports(visit, "votes", lambda: go(visit, "Next"))
    shares = [step["share"][best] for step in answers[-1]["iterations"]]
    assert shares == sorted(shares)
    assert shares[-1] > shares[0], "a growing share"
    assert f"a growing share to {best}" in sentence(visit)
    place = page.locator("[data-tour=votes] input[type=range]")
    assert place.input_value() == place.get_attribute("max")

    answer = exports(visit, "overlap", lambda: go(visit, "Next"))[-1]
    one, two = sorted(answer["capsules"]["best"])
    assert (one, two) == (0, 4)
    assert f"The two longest capsules are {one} and {two}" in sentence(visit)
    assert sorted(headlines(visit, "overlap")[0].split(" and ")) == [str(one), str(two)]

    text = go(visit, "Next")
    assert "A house, turned by 140 degrees" in text
    assert headlines(visit, "parts")[0] == "house"
    assert "scene=0_0_0_140_0.6" in page.url

    text = go(visit, "Next")
    assert "parts are found, but no whole" in text
    assert headlines(visit, "parts")[0] == "no whole"
    assert page.locator("#view-parts .seen").count() >= 2

    go(visit, "Next")
    assert page.locator("#view-draw").is_visible()
    page.locator(".tour").get_by_role("button", name="Finish").click()
    assert page.locator(".tour").count() == 0
    visit.open("parts")
    assert headlines(visit, "parts")[0] == "house and boat", "the settings from before the tour"
    assert visit.errors == []


def test_the_drawing_of_the_visitor_comes_back(visit: Visit) -> None:
    view = visit.open("draw")
    pad = view.locator("canvas.pad")
    visit.response_to("draw", view.get_by_role("button", name="Example of 5").click)
    own = pad.evaluate(THUMBNAIL)
    start(visit)
    assert pad.evaluate(THUMBNAIL) != own
    visit.page.keyboard.press("Escape")
    assert visit.page.locator(".tour").count() == 0
    visit.wait_idle()
    assert pad.evaluate(THUMBNAIL) == own
    assert view.locator(".verdict .big").inner_text() == "5"


def test_the_tour_goes_back_and_is_for_keyboards(visit: Visit) -> None:
    start(visit)
    page = visit.page
    assert page.evaluate("document.activeElement.textContent") == "Next"
    assert page.locator(".tour").get_by_role("button", name="Back").is_disabled()
    first = sentence(visit)
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.tour .count').textContent.startsWith('2')")
    page.locator(".tour[aria-busy=false]").wait_for()
    assert sentence(visit) != first
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.locator(".tour[aria-busy=false]").wait_for()
    assert sentence(visit) == first
    assert visit.errors == []


def test_a_step_can_be_left_while_it_moves(browser: Any, lab: str) -> None:
    """With motion: what an earlier step still does is canceled."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    visit = Visit(page, lab, "moving")
    visit.open("draw").get_by_role("button", name="Start the tour").click()
    bar = page.locator(".tour")
    bar.wait_for()
    for _ in range(3):
        bar.get_by_role("button", name="Next").click()
    page.locator(".tour[aria-busy=false]").wait_for()
    assert page.locator(".tour .count").inner_text() == f"4 of {STEPS}"
    assert "One of the 16 numbers" in sentence(visit)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert visit.errors == []
    page.close()

"""What the page owes to everyone: keyboard, finger, theme, plain words when weights are missing, speed."""

from typing import Any

from browser import DRAWN, Visit, served

from torchcaps.lab.weights import Shelf

pytest_plugins = ["browser_fixtures"]


def test_keyboard_walks_through_the_tabs(browser: Any, lab: str) -> None:
    visit = Visit(browser.new_page(reduced_motion="reduce"), lab, "keyboard")
    visit.open("draw")
    visit.page.get_by_role("tab", name="Draw").focus()
    for name in ("Tweak", "Overlap", "Votes", "Turn a toy", "Clusters", "Attack", "Draw"):
        visit.page.keyboard.press("ArrowRight")
        tab = visit.page.get_by_role("tab", name=name, selected=True)
        tab.wait_for()
        assert tab.evaluate("tab => tab === document.activeElement")
        visit.page.get_by_role("tabpanel", name=name).locator(".card").first.wait_for()
        visit.settle()
    assert visit.complaints == []
    visit.page.close()


def test_the_drawing_is_shared(browser: Any, lab: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    visit = Visit(page, lab, "shared")
    visit.open("tweak")
    seen = {}
    for label in (1, 8):
        view = visit.open("draw")
        visit.answered("draw", view.get_by_role("button", name=f"Example of {label}").click)
        for name in ("tweak", "votes", "attack"):
            visit.answered(name, page.get_by_role("tab", name=name.capitalize()).click)
            picture = page.locator(f"#view-{name}").get_by_role("img", name="The image of Draw")
            seen[name, label] = picture.evaluate(DRAWN)
    for name in ("tweak", "votes", "attack"):
        assert seen[name, 1] != seen[name, 8]
    assert visit.complaints == []
    page.close()


def test_theme_is_switched_and_kept(browser: Any, lab: str) -> None:
    page = browser.new_page(color_scheme="light")
    visit = Visit(page, lab, "theme")
    view = visit.open("draw")
    root, pad = page.locator("html"), view.locator("canvas.pad")
    assert root.get_attribute("data-theme") == "light"
    visit.changes(pad, page.get_by_role("button", name="Switch between light and dark").click)
    page.reload()
    visit.settle()
    assert root.get_attribute("data-theme") == "dark"
    page.close()


def test_play_moves_by_itself(browser: Any, lab: str) -> None:
    page = browser.new_page()
    view = Visit(page, lab, "play").open("votes")
    view.get_by_text("5 of 5", exact=True).wait_for()
    view.get_by_role("button", name="Iteration: play").click()
    view.get_by_role("button", name="Iteration: pause").wait_for()
    view.get_by_text("5 of 5", exact=True).wait_for()
    page.close()


def test_finger_draws(browser: Any, lab: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True)
    visit = Visit(page, lab, "touch")
    pad = visit.open("draw").locator("canvas.pad")
    visit.answered("draw", lambda: visit.changes(pad, pad.tap))
    page.close()


def test_missing_weights_are_told_in_place(browser: Any) -> None:
    with served(Shelf({})) as address:
        page = browser.new_page()
        visit = Visit(page, address, "missing")
        for view in ("draw", "tweak", "overlap", "votes", "toy", "attack"):
            notice = visit.open(view).locator(".notice")
            assert "weights" in notice.inner_text()
            assert visit.page.locator(f"#view-{view} .result:visible").count() == 0
        assert visit.open("clusters").locator(".notice").is_hidden()
        page.close()


def test_silence_of_the_server_is_told(browser: Any, lab: str) -> None:
    page = browser.new_page()
    visit = Visit(page, lab, "silence")
    view = visit.open("draw")
    page.route("**/api/draw", lambda route: route.abort())
    view.get_by_role("button", name="Example of 7").click()
    page.get_by_text("The lab does not answer").wait_for()
    page.unroute("**/api/draw")
    visit.answered("draw", view.get_by_role("button", name="Example of 2").click)
    assert page.locator("#status").inner_text() == ""
    page.close()


def test_first_useful_paint_within_a_second(browser: Any, lab: str) -> None:
    page = browser.new_page()
    Visit(page, lab, "paint").open("draw")  # the browser's own start is not the page's
    page.reload()
    page.locator("#view-draw .verdict .big:not(:empty)").wait_for()
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted <= 1000
    page.close()

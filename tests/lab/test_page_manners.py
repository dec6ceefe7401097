"""What the page owes to everyone: keyboard, finger, theme, plain words when weights are missing, speed."""

from typing import Any

import pytest
from browser import DRAWN, Visit, inside_window, served

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


@pytest.mark.parametrize("key", ["Control+z", "Delete"])
def test_a_stroke_cut_short_ends_there(browser: Any, lab: str, key: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    visit = Visit(page, lab, "cut")
    view = visit.open("draw")
    view.get_by_role("button", name="Clear").click()
    pad = view.locator("canvas.pad")
    pad.focus()
    empty = pad.evaluate(DRAWN)
    box = pad.bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 90, steps=4)
    page.keyboard.press(key)
    page.mouse.move(box["x"] + 150, box["y"] + 60, steps=4)
    page.mouse.up()
    view.get_by_text("Empty paper").wait_for()
    assert pad.evaluate(DRAWN) == empty
    assert visit.complaints == []
    page.close()


def test_undo_takes_back_a_picked_example(browser: Any, lab: str) -> None:
    page = browser.new_page()
    visit = Visit(page, lab, "undo")
    view = visit.open("draw")
    pad = view.locator("canvas.pad")
    first = pad.evaluate(DRAWN)
    visit.answered("draw", view.get_by_role("button", name="Example of 7").click)
    visit.answered("draw", view.get_by_role("button", name="Undo").click)
    assert pad.evaluate(DRAWN) == first
    page.close()


def test_a_question_left_behind_is_answered_on_return(browser: Any, lab: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    visit = Visit(page, lab, "return")
    visit.open("draw")
    page.route("**/api/votes", lambda route: route.fulfill(status=500, json={"detail": "out of order"}))
    page.get_by_role("tab", name="Votes").click()
    page.get_by_text("out of order").wait_for()
    page.get_by_role("tab", name="Draw").click()
    page.unroute("**/api/votes")
    visit.answered("votes", page.get_by_role("tab", name="Votes").click)
    assert page.locator("#view-votes .dots circle").count() > 100
    page.close()


def test_a_swinging_slider_can_be_caught(browser: Any, lab: str) -> None:
    page = browser.new_page()
    visit = Visit(page, lab, "caught")
    view = visit.open("tweak")
    view.get_by_role("button", name="Animate dimension 3").click()
    slider = view.get_by_role("slider", name="Dimension 3", exact=True)
    slider.press("End")
    view.get_by_role("button", name="Animate dimension 3").wait_for()
    assert slider.input_value() == slider.get_attribute("max")
    page.close()


def test_the_right_button_moves_nothing(browser: Any, lab: str) -> None:
    page = browser.new_page()
    visit = Visit(page, lab, "right")
    ring = visit.open("toy").get_by_role("slider", name="Azimuth")
    before = ring.get_attribute("aria-valuenow")
    ring.click(button="right", position={"x": 20, "y": 100})
    page.mouse.move(0, 0)
    assert ring.get_attribute("aria-valuenow") == before
    ring.press("End")
    assert ring.get_attribute("aria-valuenow") == ring.get_attribute("aria-valuemax")
    board = visit.open("overlap").get_by_role("img", name="Two digits")
    shown, box = board.evaluate(DRAWN), board.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down(button="right")
    page.mouse.move(box["x"] + 200, box["y"] + 200, steps=4)
    page.mouse.up(button="right")
    assert board.evaluate(DRAWN) == shown
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
    told = page.get_by_text("The lab does not answer")
    told.wait_for()
    assert inside_window(page, told), "seen without scrolling"
    assert page.locator("#view-draw .stale").count() == 1, "old results are marked as such"
    visit.answered("draw", lambda: page.unroute("**/api/draw"))  # asked again by itself
    assert page.locator("#status").inner_text() == ""
    assert page.locator(".stale").count() == 0
    page.close()


def test_a_view_that_failed_to_open_opens_again(browser: Any, lab: str) -> None:
    page = browser.new_page()
    page.route("**/api/examples", lambda route: route.abort())
    page.goto(f"{lab}/#overlap")
    page.get_by_text("The lab does not answer").wait_for()
    page.get_by_role("tab", name="Clusters").click()
    page.locator("#view-clusters .ellipses ellipse").first.wait_for()
    page.get_by_role("tab", name="Draw").click()
    page.unroute("**/api/examples")
    page.get_by_role("button", name="More examples").click()
    page.get_by_role("button", name="Example of 7").wait_for()
    page.get_by_role("tab", name="Overlap").click()
    page.locator("#view-overlap .card").first.wait_for()
    assert page.locator("#view-overlap .card").count() == 4
    page.close()


def test_the_address_without_a_view_leads_back_to_draw(browser: Any, lab: str) -> None:
    page = browser.new_page()
    page.goto(lab)
    page.get_by_role("tab", name="Clusters").click()
    page.locator("#view-clusters").wait_for()
    page.locator(".skip").press("Enter")
    assert page.evaluate("document.activeElement.id") == "stage"
    assert page.url.endswith("#clusters"), "the skip link keeps the address"
    page.go_back()
    page.locator("#view-draw").wait_for()
    page.close()


def test_empty_paper_is_told_where_a_drawing_is_needed(browser: Any, lab: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    visit = Visit(page, lab, "empty")
    visit.open("draw").get_by_role("button", name="Clear").click()
    for name in ("tweak", "votes", "attack"):
        page.get_by_role("tab", name=name.capitalize()).click()
        page.locator(f"#view-{name}").get_by_text("The paper in Draw is empty").wait_for()
    page.get_by_role("tab", name="Draw").click()
    visit.answered("draw", page.get_by_role("button", name="Example of 3").click)
    visit.answered("votes", page.get_by_role("tab", name="Votes").click)
    assert page.locator("#view-votes .notice").is_hidden()
    assert visit.complaints == []
    page.close()


def test_first_useful_paint_within_a_second(browser: Any, lab: str) -> None:
    page = browser.new_page()
    Visit(page, lab, "paint").open("draw")  # the browser's own start is not the page's
    page.reload()
    page.locator("#view-draw .verdict .big:not(:empty)").wait_for()
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted <= 1000
    page.close()

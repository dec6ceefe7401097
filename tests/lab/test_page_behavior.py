"""Behavior that all views share: keyboard, touch, theme, missing weights, connection errors, speed."""

from typing import Any

import pytest

from support.browser import THUMBNAIL, Visit, inside_window, serve
from torchcaps.lab.model_store import ModelStore

pytest_plugins = ["support.browser_fixtures"]


def test_arrow_keys_move_between_the_tabs(browser: Any, lab: str) -> None:
    visit = Visit(browser.new_page(reduced_motion="reduce"), lab, "keyboard")
    visit.open("draw")
    visit.page.get_by_role("tab", name="Draw").focus()
    tabs = ["Tweak", "Overlap", "Votes", "Parts and wholes", "Turn a toy", "Clusters", "Attack", "Compare"]
    for name in [*tabs, "Draw"]:
        visit.page.keyboard.press("ArrowRight")
        tab = visit.page.get_by_role("tab", name=name, selected=True)
        tab.wait_for()
        assert tab.evaluate("tab => tab === document.activeElement")
        visit.page.get_by_role("tabpanel", name=name).locator(".card").first.wait_for()
        visit.wait_idle()
    assert visit.errors == []
    visit.page.close()


def test_the_drawing_is_shared_between_views(browser: Any, lab: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    visit = Visit(page, lab, "shared")
    visit.open("tweak")
    pictures = {}
    for label in (1, 8):
        view = visit.open("draw")
        visit.response_to("draw", view.get_by_role("button", name=f"Example of {label}").click)
        for name in ("tweak", "votes", "attack"):
            visit.response_to(name, page.get_by_role("tab", name=name.capitalize()).click)
            picture = page.locator(f"#view-{name}").get_by_role("img", name="Your drawing")
            pictures[name, label] = picture.evaluate(THUMBNAIL)
    for name in ("tweak", "votes", "attack"):
        assert pictures[name, 1] != pictures[name, 8]
    assert visit.errors == []
    page.close()


# Posts 1, 2 and 3 at once to a server that echoes them, and lists what happened.
POST_THREE = """async () => {
  const { latestOnly } = await import("/static/js/core/api.js");
  const events = [];
  const real = window.fetch;
  window.fetch = async (path, { body }) => {
    events.push(`sent ${body}`);
    return new Response(body);
  };
  const stage = document.createElement("div");
  [1, 2, 3].forEach(latestOnly("api/test", stage, (answer) => events.push(`shown ${answer}`)));
  await new Promise((resolve) => { setTimeout(resolve, 100); });
  window.fetch = real;
  return events;
}"""


def test_the_server_computes_while_the_page_draws(browser: Any, lab: str) -> None:
    """Of what is posted meanwhile the newest is sent, and before the answer to the first is shown."""
    page = browser.new_page()
    Visit(page, lab, "order").open("draw")
    assert page.evaluate(POST_THREE) == ["sent 1", "sent 3", "shown 1", "shown 3"]
    page.close()


def test_the_theme_can_be_switched_and_is_remembered(browser: Any, lab: str) -> None:
    page = browser.new_page(color_scheme="light")
    visit = Visit(page, lab, "theme")
    view = visit.open("draw")
    root, pad = page.locator("html"), view.locator("canvas.pad")
    assert root.get_attribute("data-theme") == "light"
    visit.expect_change(pad, page.get_by_role("button", name="Switch between light and dark").click)
    page.reload()
    visit.wait_idle()
    assert root.get_attribute("data-theme") == "dark"
    page.close()


def test_play_steps_through_the_iterations(browser: Any, lab: str) -> None:
    page = browser.new_page()
    view = Visit(page, lab, "play").open("votes").get_by_role("region", name="Agreement")
    view.get_by_text("3 of 3", exact=True).wait_for()
    # All that is shown is noted: on a busy machine it is over before the test can look.
    view.locator(".player").evaluate(
        """player => {
          const [play, count] = [".play", ".count"].map((part) => player.querySelector(part));
          const note = () => window.seen.push([play.ariaLabel, count.textContent].join());
          window.seen = [];
          new MutationObserver(note).observe(player, { subtree: true, childList: true, attributes: true });
        }"""
    )
    view.get_by_role("button", name="Iteration: play").click()
    page.wait_for_function("() => window.seen.at(-1) === 'Iteration: play,3 of 3' && window.seen.length > 1")
    seen = page.evaluate("window.seen")
    for place in ("1 of 3", "2 of 3"):
        assert f"Iteration: pause,{place}" in seen
    page.close()


def test_drawing_by_touch(browser: Any, lab: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True)
    visit = Visit(page, lab, "touch")
    pad = visit.open("draw").locator("canvas.pad")
    visit.response_to("draw", lambda: visit.expect_change(pad, pad.tap))
    page.close()


@pytest.mark.parametrize("key", ["Control+z", "Delete"])
def test_undo_and_clear_end_the_current_stroke(browser: Any, lab: str, key: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    visit = Visit(page, lab, "cut")
    view = visit.open("draw")
    view.get_by_role("button", name="Clear").click()
    pad = view.locator("canvas.pad")
    pad.focus()
    empty = pad.evaluate(THUMBNAIL)
    box = pad.bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 90, steps=4)
    page.keyboard.press(key)
    page.mouse.move(box["x"] + 150, box["y"] + 60, steps=4)
    page.mouse.up()
    view.get_by_text("Nothing drawn yet").wait_for()
    assert pad.evaluate(THUMBNAIL) == empty
    assert visit.errors == []
    page.close()


def test_undo_restores_the_previous_example(browser: Any, lab: str) -> None:
    page = browser.new_page()
    visit = Visit(page, lab, "undo")
    view = visit.open("draw")
    pad = view.locator("canvas.pad")
    first = pad.evaluate(THUMBNAIL)
    visit.response_to("draw", view.get_by_role("button", name="Example of 7").click)
    visit.response_to("draw", view.get_by_role("button", name="Undo").click)
    assert pad.evaluate(THUMBNAIL) == first
    page.close()


def test_a_failed_request_is_repeated_when_the_view_is_opened_again(browser: Any, lab: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    visit = Visit(page, lab, "return")
    visit.open("draw")
    page.route("**/api/votes", lambda route: route.fulfill(status=500, json={"detail": "out of order"}))
    page.get_by_role("tab", name="Votes").click()
    page.get_by_text("out of order").wait_for()
    page.get_by_role("tab", name="Draw").click()
    page.unroute("**/api/votes")
    visit.response_to("votes", page.get_by_role("tab", name="Votes").click)
    assert page.locator("#view-votes .dots circle").count() > 100
    page.close()


def test_moving_a_slider_stops_its_animation(browser: Any, lab: str) -> None:
    page = browser.new_page()
    visit = Visit(page, lab, "caught")
    view = visit.open("tweak")
    view.get_by_role("button", name="Animate dimension 3").click()
    slider = view.get_by_role("slider", name="Dimension 3", exact=True)
    slider.press("End")
    view.get_by_role("button", name="Animate dimension 3").wait_for()
    assert slider.input_value() == slider.get_attribute("max")
    page.close()


def test_the_right_mouse_button_does_not_drag(browser: Any, lab: str) -> None:
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
    shown, box = board.evaluate(THUMBNAIL), board.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down(button="right")
    page.mouse.move(box["x"] + 200, box["y"] + 200, steps=4)
    page.mouse.up(button="right")
    assert board.evaluate(THUMBNAIL) == shown
    page.close()


def test_missing_weights_are_reported_inside_the_view(browser: Any) -> None:
    with serve(ModelStore({})) as url:
        page = browser.new_page()
        visit = Visit(page, url, "missing")
        for view in ("draw", "tweak", "overlap", "votes", "parts", "toy", "attack"):
            notice = visit.open(view).locator(".notice")
            assert "weights" in notice.inner_text()
            assert visit.page.locator(f"#view-{view} .result:visible").count() == 0
        assert visit.open("clusters").locator(".notice").is_hidden()
        page.close()


def test_the_token_in_the_address_opens_the_page_and_is_then_hidden(browser: Any) -> None:
    with serve(ModelStore({}), token="secret") as url:
        stranger = browser.new_page()
        assert stranger.goto(url).status == 403
        stranger.close()
        page = browser.new_page()
        visit = Visit(page, url, "token")
        page.goto(f"{url}/?token=secret#clusters")
        visit.wait_idle()
        assert page.url.startswith(f"{url}/#clusters")
        page.reload()
        visit.open("clusters")
        assert not [error for error in visit.errors if "403" in error]
        page.close()


def test_a_lost_connection_is_reported_and_retried(browser: Any, lab: str) -> None:
    page = browser.new_page()
    visit = Visit(page, lab, "silence")
    view = visit.open("draw")
    page.route("**/api/draw", lambda route: route.abort())
    view.get_by_role("button", name="Example of 7").click()
    message = page.get_by_text("The server does not respond")
    message.wait_for()
    assert inside_window(page, message), "visible without scrolling"
    assert page.locator("#view-draw .stale").count() == 1, "old results are dimmed"
    visit.response_to("draw", lambda: page.unroute("**/api/draw"))  # retried automatically
    assert page.locator("#status").inner_text() == ""
    assert page.locator(".stale").count() == 0
    page.close()


def test_a_view_that_failed_to_open_can_be_opened_again(browser: Any, lab: str) -> None:
    page = browser.new_page()
    page.route("**/api/examples", lambda route: route.abort())
    page.goto(f"{lab}/#overlap")
    page.get_by_text("The server does not respond").wait_for()
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


def test_tabs_show_that_they_scroll_and_words_are_beside_the_title(browser: Any, lab: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    visit = Visit(page, lab, "frame")
    view, tabs = visit.open("clusters"), page.get_by_role("tablist")
    arrows = "list => ['::before', '::after'].map((edge) => getComputedStyle(list, edge).visibility)"
    assert tabs.evaluate(arrows) == ["visible", "visible"], "there are more on both sides"
    for end, expected in (("0", ["hidden", "visible"]), ("list.scrollWidth", ["visible", "hidden"])):
        tabs.evaluate(f"list => {{ list.scrollLeft = {end}; }}")
        page.wait_for_timeout(200)  # the event comes with the next frame
        assert tabs.evaluate(arrows) == expected
    button = view.get_by_role("button", name="Words used here")
    title = view.locator("h1").bounding_box()
    assert title["y"] <= button.bounding_box()["y"] <= title["y"] + title["height"]
    button.click()
    assert inside_window(page, page.get_by_text("What a part predicts for the pose"))
    assert page.locator(".glossary summary").evaluate("it => it === document.activeElement")
    assert visit.errors == []
    page.close()


def test_the_url_without_a_hash_opens_draw(browser: Any, lab: str) -> None:
    page = browser.new_page()
    page.goto(lab)
    page.get_by_role("tab", name="Clusters").click()
    page.locator("#view-clusters").wait_for()
    page.locator(".skip").press("Enter")
    assert page.evaluate("document.activeElement.id") == "stage"
    assert "#clusters" in page.url, "the skip link does not change the URL"
    page.go_back()
    page.locator("#view-draw").wait_for()
    page.close()


def test_views_that_need_a_drawing_ask_for_one(browser: Any, lab: str) -> None:
    page = browser.new_page(reduced_motion="reduce")
    visit = Visit(page, lab, "empty")
    visit.open("draw").get_by_role("button", name="Clear").click()
    for name in ("tweak", "votes", "attack"):
        page.get_by_role("tab", name=name.capitalize()).click()
        page.locator(f"#view-{name}").get_by_text("There is no drawing yet").wait_for()
    page.get_by_role("tab", name="Draw").click()
    visit.response_to("draw", page.get_by_role("button", name="Example of 3").click)
    visit.response_to("votes", page.get_by_role("tab", name="Votes").click)
    assert page.locator("#view-votes .notice").is_hidden()
    assert visit.errors == []
    page.close()


def test_first_useful_paint_within_a_second(browser: Any, lab: str) -> None:
    page = browser.new_page()
    Visit(page, lab, "paint").open("draw")  # the start of the browser is not measured
    page.reload()
    page.locator("#view-draw .verdict .big:not(:empty)").wait_for()
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert painted <= 1000
    page.close()

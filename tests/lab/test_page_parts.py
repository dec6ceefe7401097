"""Parts and wholes in the browser: compose a scene, scramble it, and see what is found."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from support.browser import Visit
from torchcaps.lab.model_store import ModelKey

pytest_plugins = ["support.browser_fixtures"]


@pytest.fixture
def wide(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 1400}, reduced_motion="reduce")
    yield Visit(page, lab, "wide")
    page.close()


def found(view: Any) -> list[str]:
    """The names of the wholes."""
    words = view.locator(".capsules .big").inner_text().replace(",", " and").split(" and ")
    return sorted(word.strip() for word in words)


def test_a_scrambled_whole_is_gone_until_it_is_put_together(visit: Visit, trained: set[ModelKey]) -> None:
    view = visit.open("parts")
    assert found(view) == ["boat", "house"]
    assert view.locator(".capsules .big").inner_text() == "house and boat", "from left to right"
    assert view.locator(".tree .node.whole b").all_inner_texts() == ["house", "boat"]
    assert view.locator(".tree .node.group b").all_inner_texts() == ["harbor"]
    assert view.locator(".tree .node.part").count() == 4
    visit.finish("parts")
    visit.response_to("parts", view.get_by_role("button", name="Scramble").click)
    assert found(view) == ["no whole"]
    assert view.locator(".seen").count() == view.locator(".tree .node.part").count() >= 3
    visit.finish("parts-scrambled")
    visit.response_to("parts", view.get_by_role("button", name="Put together").click)
    assert found(view) == ["boat", "house"]
    assert visit.errors == []


def test_pending_requests_do_not_replace_each_other(wide: Visit) -> None:
    """The server drops a waiting request for a newer one of its session, and the browser reports that."""
    view = wide.open("parts")
    pending: list[str] = []
    together: list[list[str]] = []

    def sent(request: Any) -> None:
        if request.url.endswith("/api/parts"):
            pending.append(request.headers["x-session"])
            together.append([*pending])

    wide.page.on("request", sent)
    wide.page.on(
        "response", lambda r: r.url.endswith("/api/parts") and pending.remove(r.request.headers["x-session"])
    )
    box = view.locator(".object").first.bounding_box()
    wide.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    wide.page.mouse.down()
    for step in range(40):
        wide.page.mouse.move(box["x"] + box["width"] / 2 + step, box["y"] - step)
    wide.page.mouse.up()
    wide.wait_idle()
    assert max(map(len, together)) == 2
    assert all(len(set(sessions)) == len(sessions) for sessions in together)


def test_shapes_are_added_and_removed(wide: Visit) -> None:
    view = wide.open("parts")
    view.get_by_role("button", name="Clear").click()
    view.get_by_text("no part was found").wait_for()
    wide.response_to("parts", view.get_by_role("button", name="Add: robot").click)
    assert found(view) == ["robot"]
    shelf, board = view.get_by_role("button", name="Add: fish"), view.locator(".scene")
    start, end = shelf.bounding_box(), board.bounding_box()
    wide.page.mouse.move(start["x"] + 20, start["y"] + 20)
    wide.page.mouse.down()
    wide.page.mouse.move(end["x"] + 0.25 * end["width"], end["y"] + 0.2 * end["height"], steps=6)
    wide.page.mouse.up()
    wide.wait_idle()
    assert view.locator(".object").count() == 2
    assert found(view) == ["fish", "robot"]
    wide.response_to("parts", lambda: view.locator(".object").last.press("Delete"))
    assert view.locator(".object").count() == 1
    assert wide.errors == []


def test_a_shape_can_be_moved_turned_and_scaled(wide: Visit) -> None:
    view = wide.open("parts")
    sliders = view.locator(".board-column .slider .value")
    assert sliders.all_inner_texts() == ["", ""], "nothing is selected, so there is no value"
    house = view.locator(".object").first
    before = house.get_attribute("transform")
    box = house.bounding_box()
    wide.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    wide.page.mouse.down()
    wide.page.mouse.move(box["x"] + box["width"] / 2, box["y"] - 40, steps=5)
    wide.page.mouse.up()
    moved = house.get_attribute("transform")
    assert moved != before
    assert sliders.all_inner_texts() == ["0°", "0.50"]
    knob = view.locator(".scene .knob")
    box = knob.bounding_box()
    wide.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    wide.page.mouse.down()
    wide.page.mouse.move(box["x"] + 150, box["y"] + 60, steps=5)
    wide.page.mouse.up()
    wide.wait_idle()
    assert house.get_attribute("transform") != moved
    assert view.get_by_role("slider", name="Angle").input_value() != "0"
    for key in ("ArrowLeft", "[", "-"):
        last = house.get_attribute("transform")
        wide.response_to("parts", lambda key=key: house.press(key))  # type: ignore[misc]
        assert house.get_attribute("transform") != last, key
    wide.response_to("parts", lambda: view.get_by_role("slider", name="Angle").press("Home"))
    assert view.get_by_role("slider", name="Angle").input_value() == "-180"
    assert sliders.first.inner_text() == "↻ 180°"
    assert wide.errors == []


def test_a_reload_keeps_the_scene(wide: Visit) -> None:
    view = wide.open("parts")
    wide.response_to("parts", view.get_by_role("button", name="Three wholes").click)
    names = found(view)
    assert names == ["fish", "robot", "tree"]
    wide.page.reload()
    wide.wait_idle()
    view.locator(".capsules .big:not(:empty)").wait_for()
    assert found(view) == names


def test_a_reload_with_an_old_address_keeps_the_scene(wide: Visit) -> None:
    """The address follows a little later than the scene, so a page may be reloaded in between."""
    view = wide.open("parts")
    old = wide.page.evaluate("location.hash")
    wide.response_to("parts", view.get_by_role("button", name="Three wholes").click)
    names = found(view)
    wide.page.wait_for_function("old => location.hash !== old", arg=old)
    wide.page.evaluate("old => history.replaceState(null, '', old)", old)
    wide.page.reload()
    wide.wait_idle()
    view.locator(".capsules .big:not(:empty)").wait_for()
    assert found(view) == names


def test_a_link_counts_more_than_what_was_kept(wide: Visit) -> None:
    view = wide.open("parts")
    wide.response_to("parts", view.get_by_role("button", name="Three wholes").click)
    wide.page.goto("about:blank")
    wide.response_to("parts", lambda: wide.open("parts?scene=0_0_0_0_0.6"))
    assert found(view) == ["house"]


def test_pointing_at_the_tree_shows_the_part(wide: Visit) -> None:
    """Only then the whole that it predicts is drawn: the outlines of all parts would cover each other."""
    view = wide.open("parts")
    outlines = view.locator(".vote path:visible")
    assert (view.locator(".vote line").count(), outlines.count()) == (4, 0)
    part, group = view.locator(".tree .node.part").first, view.locator(".tree .node.group")
    for point in ("hover", "focus"):
        getattr(part, point)()
        assert view.locator(".seen:not(.dim)").count() == 1
        assert outlines.count() == 2, "one whole of two parts"
        getattr(group, point)()
        assert view.locator(".seen:not(.dim)").count() == 4
        assert outlines.count() == 0


def test_faces_are_a_world_of_their_own(visit: Visit, trained: set[ModelKey]) -> None:
    view = visit.open("parts")
    visit.response_to("parts", view.get_by_text("Faces", exact=True).click)
    faces = view.locator(".world:not([hidden])")
    assert faces.locator(".tree .node.part b").all_inner_texts().count("eye") == 2
    visit.response_to("parts", faces.get_by_role("button", name="Same parts").click)
    assert found(faces) == ["bicycle", "boat", "face", "snowman"]
    visit.finish("parts-faces")
    visit.response_to("parts", faces.get_by_role("button", name="Scramble", exact=True).click)
    assert found(faces) == ["no whole"]
    visit.page.reload()
    visit.wait_idle()
    view.locator(".world:not([hidden]) .tree .node.part").first.wait_for()
    assert view.get_by_text("Faces", exact=True).get_by_role("radio").is_checked()


def test_the_tree_names_the_pose_of_every_part(wide: Visit) -> None:
    answer = wide.response_to("parts", lambda: wide.open("parts?scene=0_-0.4_0_0_0.5~4_0.5_0_60_0.4"))
    shown = wide.page.locator("#view-parts .tree .node.part span").all_inner_texts()
    assert len(shown) == len(answer["parts"]) >= 5
    for part in answer["parts"]:
        a, b, _, _ = part["pose"]
        angle, size = round(math.degrees(math.atan2(b, a))), math.hypot(a, b)
        turn = f"{'' if angle == 0 else '↺ ' if angle > 0 else '↻ '}{abs(angle)}°"
        text = f"presence {part['presence']:.2f}, {turn}, size {size:.2f}"
        assert text in shown, (text, shown)


def test_the_whole_vanishes_while_the_cnn_names_one(wide: Visit) -> None:
    view = wide.open("parts")
    wide.response_to("parts", view.get_by_role("button", name="A tree").click)
    cnn = view.get_by_role("region", name="Both networks on this picture")
    for _ in range(5):  # every way to scramble it
        assert found(view) == ["tree"]
        assert "The highest score of the CNN: tree. That is right." in cnn.inner_text()
        wide.response_to("parts", view.get_by_role("button", name="Scramble").click)
        assert found(view) == ["no whole"]
        assert "The highest score of the CNN: tree. The capsules found no whole." in cnn.inner_text()
        wide.response_to("parts", view.get_by_role("button", name="Put together").click)


@pytest.mark.parametrize(
    ("scene", "kinds"),
    [
        ("0_-0.48_0_0_0.5~1_0.42_0_0_0.5", {"house", "boat"}),
        ("4_-0.5_0_0_0.45~4_0.5_0_0_0.45", {"tree"}),
        ("4_-0.58_0.42_20_0.4~2_0.5_0.5_-35_0.4~7_0.05_-0.5_160_0.45", {"tree", "fish", "robot"}),
        ("4_-0.5_0_0_0.45~2_0.5_0_0_0.45_0", {"tree"}),  # the fish is scrambled
        ("-1_0_0_0_0.3", set()),
    ],
)
def test_as_many_scores_count_as_there_are_types_of_whole(wide: Visit, scene: str, kinds: set[str]) -> None:
    """A softmax cannot name two wholes with certainty: its highest scores count, one for each type."""
    answer = wide.response_to("parts", lambda: wide.open(f"parts?scene={scene}"))
    cnn = wide.page.locator("#view-parts").get_by_role("region", name="Both networks on this picture")
    bars = cnn.get_by_role("list", name="Scores of the CNN")
    names = bars.locator(".name").all_inner_texts()
    best = [name for _, name in sorted(zip(answer["cnn"], names), reverse=True)][: len(kinds) or 1]
    assert set(bars.locator(".marked .name").all_inner_texts()) == set(best)
    right = len(kinds & set(best))
    text = cnn.get_by_role("status").inner_text()
    if len(kinds) > 1:
        assert f"The {len(kinds)} highest scores of the CNN: " in text
        assert f"Correct: {right} of {len(kinds)}." in text
        assert all(name in text for name in best)
        words = wide.page.locator("#view-parts .cnn .words").inner_text()
        assert words == f"{right} of {len(kinds)} correct"
    elif kinds:
        assert text == f"The highest score of the CNN: {best[0]}. That is {'right' if right else 'wrong'}."
    else:
        assert text == f"The highest score of the CNN: {best[0]}. The capsules found no whole."


def test_faces_open_with_a_scrambled_one(wide: Visit) -> None:
    """The contrast is the first thing seen: the capsules find its parts and no face, the CNN names a face."""
    answer = wide.response_to("parts", lambda: wide.open("parts?world=faces"))
    view = wide.page.locator("#view-parts")
    assert sorted(part["name"] for part in answer["parts"]) == ["eye", "eye", "mouth", "nose"]
    assert found(view) == ["no whole"]
    assert view.locator(".capsules .words").inner_text() == "4 parts belong to no whole"
    assert view.locator(".cnn .big").inner_text() == "face"
    score = f"score {answer['cnn'][0]:.2f}, although the parts are scrambled"
    assert view.locator(".cnn .words").inner_text() == score
    assert answer["cnn"][0] > 0.85
    cnn = view.get_by_role("region", name="Both networks on this picture").locator("visible=true").first
    bars = cnn.locator(".bars")
    for index in range(2):
        assert bars.nth(index).locator(".name").all_inner_texts() == ["face", "bicycle", "boat", "snowman"]
    shown = [float(text) for text in bars.first.locator(".value").all_inner_texts()]
    assert shown == pytest.approx(answer["presence"], abs=6e-3)
    assert max(shown) < answer["threshold"], "a counterpart of the CNN's score"
    mark = bars.first.evaluate("bars => bars.style.getPropertyValue('--mark')")
    assert mark == f"{100 * answer['threshold']:.0f}%"
    wide.response_to("parts", view.get_by_role("button", name="Put together").click)
    assert found(view) == ["face"]
    assert view.locator(".cnn .verdict").inner_text().split() == ["face", "correct"]
    assert "The highest score of the CNN: face. That is right." in cnn.inner_text()


def test_the_scene_and_all_answers_are_in_sight(wide: Visit) -> None:
    view = wide.open("parts")
    for part in (".scene", ".tree", ".verdict", "section[aria-label^='Both'] .bars", ".button.main"):
        box = view.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= 900, part

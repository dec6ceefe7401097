"""Each view of the lab, used like a user would, on a phone and a wide screen, in light and dark themes."""

import re
from typing import Any

import pytest

from support.browser import THUMBNAIL, Visit
from torchcaps.lab.model_store import ModelKey

pytest_plugins = ["support.browser_fixtures"]


def headline(view: Any, index: int = 0) -> str:
    return view.locator(".verdict .big").nth(index).inner_text()


def test_draw(visit: Visit, trained: set[ModelKey]) -> None:
    view = visit.open("draw")
    assert headline(view).isdigit(), "an example is recognized at once"
    pad, rebuilt = view.locator("canvas.pad"), view.get_by_role("img", name="Reconstruction of")
    example = pad.evaluate(THUMBNAIL)

    def seven() -> None:
        visit.stroke(pad, (0.28, 0.22), (0.72, 0.22), (0.6, 0.45), (0.45, 0.8))

    visit.response_to("draw", lambda: visit.expect_change(rebuilt, seven))
    assert view.locator(".thumbs [aria-pressed=true]").count() == 0, "no example is selected"
    if ("capsnet_small", "mnist") in trained:
        assert headline(view) == "7"
    visit.finish("draw")

    visit.response_to("draw", lambda: view.get_by_role("button", name="Undo").click())
    assert pad.evaluate(THUMBNAIL) == example
    view.get_by_role("button", name="Clear").click()
    view.get_by_text("Nothing drawn yet").wait_for()
    visit.response_to("draw", lambda: view.get_by_role("button", name="Example of 5").click())
    if ("capsnet_small", "mnist") in trained:
        assert headline(view) == "5"
    assert visit.errors == []


def test_couplings(visit: Visit, trained: set[ModelKey]) -> None:
    view = visit.open("draw")
    maps = view.locator(".maps canvas")
    assert maps.count() == 10
    last = [heat.evaluate(THUMBNAIL) for heat in maps.all()]
    view.get_by_role("button", name="step back").click()
    view.get_by_role("slider", name="Routing iteration").press("Home")
    assert view.locator(".player .count").inner_text().startswith("1 of")
    assert view.get_by_role("button", name="step back").is_disabled()
    if ("capsnet_small", "mnist") in trained:
        assert [heat.evaluate(THUMBNAIL) for heat in maps.all()] != last, "the couplings change"


def test_tweak(visit: Visit) -> None:
    view = visit.open("tweak")
    picture = view.get_by_role("img", name="Reconstruction from the sliders")
    first = picture.evaluate(THUMBNAIL)
    slider = view.get_by_role("slider", name="Dimension 3", exact=True)
    visit.expect_change(picture, lambda: slider.press("PageUp"))
    visit.response_to("tweak", lambda: slider.press("End"))
    visit.finish("tweak")
    visit.response_to("tweak", view.get_by_role("button", name="Reset all").click)
    assert picture.evaluate(THUMBNAIL) == first
    visit.response_to("tweak", view.get_by_role("button", name="Random").click)
    visit.expect_change(picture, view.get_by_role("button", name="Animate dimension 5").click)
    view.get_by_role("button", name="Stop dimension 5").click()
    visit.wait_idle()
    assert visit.errors == []


def test_overlap(visit: Visit, trained: set[ModelKey]) -> None:
    view = visit.open("overlap")
    board = view.get_by_role("img", name="Two digits")
    visit.response_to("overlap", view.get_by_role("button", name="Move them apart").click)
    separate = board.evaluate(THUMBNAIL)
    visit.response_to("overlap", lambda: visit.stroke(board, (0.35, 0.5), (0.5, 0.4)))
    assert board.evaluate(THUMBNAIL) != separate
    visit.response_to("overlap", lambda: view.get_by_role("button", name="Move the second").press("ArrowUp"))
    assert re.fullmatch(r"\d and \d", headline(view))
    if ("capsnet_small", "multimnist") in trained:
        # With little overlap, two clear digits are easy.
        visit.response_to("overlap", view.get_by_role("button", name="Move them apart").click)
        assert set(headline(view).split(" and ")) == {"3", "9"}
    visit.finish("overlap")


OUTSIDE = """all => all.flatMap((picture) => {
  const box = picture.getBoundingClientRect();
  return [...picture.querySelectorAll("text")].filter((text) => {
    const { left, right } = text.getBoundingClientRect();
    return left < box.left - 1 || right > box.right + 1;
  }).map((text) => text.textContent);
})"""


def test_votes(visit: Visit, trained: set[ModelKey]) -> None:
    view = visit.open("votes")
    agreement = view.get_by_role("region", name="Agreement")
    mean, forward = view.locator(".mean").first, agreement.get_by_role("button", name="step forward")
    dots = agreement.locator(".dots circle")
    assert dots.count() < 3 * 288, "a small network"
    view.get_by_role("slider", name="Iteration", exact=True).press("Home")
    places = [mean.get_attribute("style")]
    while forward.is_enabled():
        forward.click()
        places.append(mean.get_attribute("style"))
    assert len(places) == 3
    if ("capsule_head", "mnist-twin-dynamic") in trained:
        assert len(set(places)) > 1, "the means move"
    assert view.locator(".strips").evaluate_all(OUTSIDE) == [], "no text of a picture is cut off"
    visit.finish("votes")
    visit.response_to("votes", view.locator(".choices").get_by_text("Network of Draw").click)
    assert dots.count() == 3 * 288
    assert visit.errors == []


def test_toy(visit: Visit, trained: set[ModelKey]) -> None:
    view = visit.open("toy")
    left, ring = view.get_by_role("img", name="Left eye"), view.get_by_role("slider", name="Azimuth")
    numbers = view.locator(".matrix").inner_text()
    visit.expect_change(left, lambda: visit.stroke(ring, (0.5, 0.1), (0.86, 0.5)))
    visit.wait_idle()
    assert ring.get_attribute("aria-valuenow") == "90"
    assert view.locator(".matrix").inner_text() != numbers
    visit.response_to("toy", lambda: ring.press("ArrowRight"))
    assert ring.get_attribute("aria-valuenow") == "95"
    assert view.locator(".ring .trained").count() > 0
    for name in ("Instance", "Elevation", "Lighting"):
        visit.expect_change(left, lambda name=name: view.get_by_role("slider", name=name).press("ArrowRight"))  # type: ignore[misc]
    visit.expect_change(left, view.get_by_text("plane", exact=True).first.click)
    visit.expect_change(left, view.get_by_role("button", name="Rotate").click)
    view.get_by_role("button", name="Stop").click()
    visit.wait_idle()
    visit.finish("toy")


def test_clusters(visit: Visit) -> None:
    view = visit.open("clusters")
    count, plane = int(headline(view).split()[0]), view.locator(".plane")
    visit.response_to("clusters", lambda: plane.click(position={"x": 40, "y": 30}))
    assert headline(view) == f"{count + 1} votes"
    plane.press("ArrowUp")
    visit.response_to("clusters", lambda: plane.press("Enter"))
    assert headline(view) == f"{count + 2} votes"
    visit.response_to("clusters", view.get_by_role("button", name="A cross").click)
    crosses = view.locator(".means .cross")
    last = crosses.first.get_attribute("d")
    view.get_by_role("slider", name="Iteration", exact=True).press("Home")
    assert crosses.first.get_attribute("d") != last, "the means move"
    view.get_by_role("slider", name="Iteration", exact=True).press("End")
    visit.finish("clusters")
    for kind in ("Diagonal", "Spherical", "Fixed σ", "Rows", "k-means"):
        visit.response_to("clusters", view.get_by_text(kind, exact=True).click)
    assert view.locator(".ellipses ellipse").count() == 0, "k-means has no covariance"
    view.get_by_role("button", name="Clear").click()
    assert headline(view) == "0 votes"
    plane.click(position={"x": 40, "y": 30})
    assert headline(view) == "1 vote"
    visit.response_to("clusters", lambda: plane.click(position={"x": 90, "y": 60}))
    parts = re.findall(r"[\d.]+", view.locator(".verdict .words").inner_text())
    assert sum(map(float, parts)) == pytest.approx(2), "the counts add up"
    assert visit.errors == []


def test_attack(visit: Visit) -> None:
    view = visit.open("attack")
    shown, epsilon = view.get_by_role("img", name="Attacked image for Capsules"), view.get_by_role("slider")
    epsilon.press("Home")
    clean = shown.evaluate(THUMBNAIL)
    epsilon.press("PageUp")
    epsilon.press("PageUp")
    assert shown.evaluate(THUMBNAIL) != clean
    answer = visit.response_to("attack", view.get_by_text("PGD", exact=True).click)
    at = answer["epsilons"].index(pytest.approx(float(epsilon.input_value())))
    for index, network in enumerate(("capsules", "cnn")):
        assert headline(view, index + 1).endswith(str(answer[network]["after"][at]))
    visit.finish("attack")

"""Clusters in the browser: the picture says what its points and ellipses stand for."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.browser import Visit, inside_window

pytest_plugins = ["support.browser_fixtures"]


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "clusters")
    page.close()


def test_the_first_screen_says_what_points_and_ellipses_are(visit: Visit) -> None:
    view = visit.open("clusters")
    lead = view.locator(".lead p")
    for words in ("Each point is a vote", "Each ellipse is a parent capsule", "In each iteration, EM shares"):
        assert words in lead.inner_text()
    assert inside_window(visit.page, lead)
    happened = view.get_by_text("E step:")
    assert inside_window(visit.page, happened)
    assert "M step:" in happened.inner_text()
    assert view.locator(".plane-key span").count() == 3


def test_each_ellipse_is_named_as_a_capsule_with_its_votes(visit: Visit) -> None:
    answer = visit.response_to("clusters", lambda: visit.open("clusters"))
    view = visit.page.locator("#view-clusters")
    sizes = [sum(column) for column in zip(*answer["iterations"][-1]["assignment"], strict=True)]
    labels = view.locator(".plane .names text")
    assert labels.all_text_contents() == [
        f"capsule {number}: {round(size)} votes" for number, size in enumerate(sizes, 1)
    ]
    for name in ("A cross", "Small in large", "Pairs"):
        visit.response_to("clusters", view.get_by_role("button", name=name).click)
        boxes = [label.bounding_box() for label in labels.all()]
        plane = view.locator(".plane").bounding_box()
        for index, box in enumerate(boxes):
            assert plane["x"] <= box["x"], name
            assert box["x"] + box["width"] <= plane["x"] + plane["width"], name
            for other in boxes[:index]:
                apart = abs(box["y"] - other["y"]) >= 14 or abs(box["x"] - other["x"]) >= box["width"]
                assert apart, f"{name}: labels lie over each other"
    assert visit.errors == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("full", "each ellipse takes the mean and the spread"),
        ("fixed", "each circle moves to the mean"),
        ("kmeans", "each mean moves to the middle"),
    ],
)
def test_every_iteration_says_what_happens_in_it(visit: Visit, kind: str, words: str) -> None:
    view = visit.open(f"clusters?kind={kind}")
    slider = view.get_by_role("slider", name="Iteration", exact=True)
    slider.press("Home")
    assert re.search(r"Iteration 1, from a first guess: .* start at 3 of the votes\.", view.inner_text())
    slider.press("ArrowRight")
    line = view.locator(".card p.small", has_text="Iteration 2").inner_text()
    assert words in line

"""Clusters in the browser: the picture says what its points and ellipses stand for."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.browser import Visit, inside_window

pytest_plugins = ["support.browser_fixtures"]


# How many points lie behind a label.
COVERED = """plane => {
  const labels = [...plane.querySelectorAll(".names text")].map((one) => one.getBoundingClientRect());
  return [...plane.querySelectorAll(".points > *")].filter((one) => {
    const dot = one.getBoundingClientRect();
    const [x, y] = [dot.x + dot.width / 2, dot.y + dot.height / 2];
    return labels.some((box) => box.left < x && x < box.right && box.top < y && y < box.bottom);
  }).length;
}"""


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "clusters")
    page.close()


def test_the_first_screen_says_what_points_and_ellipses_are(visit: Visit) -> None:
    view = visit.open("clusters")
    lead = view.locator(".lead p")
    for words in (
        "Each point is a vote",
        "Each ellipse is a parent capsule",
        "In each iteration, EM shares",
        "Dynamic routing compares",
    ):
        assert words in lead.inner_text()
    assert inside_window(visit.page, lead)
    happened = view.get_by_text("E step:")
    assert inside_window(visit.page, happened)
    assert "M step:" in happened.inner_text()
    assert view.locator(".plane-key span").count() == 5
    visit.page.set_viewport_size({"width": 390, "height": 844})
    plane, legend = (view.locator(name).bounding_box() for name in (".plane", ".plane-key"))
    assert plane["y"] < 844 < legend["y"], "the plane comes before its legend"


def test_a_shared_vote_is_a_disk_with_a_slice_for_each_share(visit: Visit) -> None:
    answer = visit.response_to("clusters", lambda: visit.open("clusters"))
    view = visit.page.locator("#view-clusters")
    slider = view.get_by_role("slider", name="Iteration", exact=True)
    assert slider.input_value() == "29"
    slider.press("Home")
    for _ in range(3):
        slider.press("ArrowRight")
    step = answer["iterations"][3]
    shared = [shares for shares in step["assignment"] if sorted(shares)[-2] >= 0.05]
    assert len(shared) > 10
    disks = view.locator(".points .shared")
    assert disks.count() == len(shared)
    assert view.locator(".points > path").count() == len(step["assignment"]) - len(shared)
    # The first slice starts at the top and ends at the angle of its share.
    edges = disks.evaluate_all("all => all.map((disk) => disk.firstChild.getAttribute('d'))")
    for edge, shares in zip(edges, shared, strict=True):
        x, y = map(float, re.search(r" 1 (-?[\d.]+),(-?[\d.]+)z", edge).groups())  # type: ignore[union-attr]
        angle = np.arctan2(x, -y) / (2 * np.pi) % 1
        assert min(abs(angle - shares[0]), 1 - abs(angle - shares[0])) < 0.01
    ways = view.locator(".paths polyline").evaluate_all("all => all.map((one) => one.points.length)")
    assert ways == [4, 4], "the means of iterations 1 to 4"
    assert visit.errors == []


def test_each_ellipse_is_named_as_a_capsule_with_its_votes(visit: Visit) -> None:
    answer = visit.response_to("clusters", lambda: visit.open("clusters"))
    view = visit.page.locator("#view-clusters")
    sizes = [sum(column) for column in zip(*answer["iterations"][-1]["assignment"], strict=True)]
    labels = view.locator(".plane .names text")
    assert labels.all_text_contents() == [
        f"capsule {number}: {round(size)} votes" for number, size in enumerate(sizes, 1)
    ]
    for name in ("Three blobs", "A cross", "Small in large", "Pairs"):
        visit.response_to("clusters", view.get_by_role("button", name=name).click)
        boxes = [label.bounding_box() for label in labels.all()]
        plane = view.locator(".plane").bounding_box()
        covered = view.locator(".plane").evaluate(COVERED)
        assert covered <= (0 if name == "Three blobs" else 4), f"{name}: labels lie over points"
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
    assert re.search(r"Iteration 1, from a first guess: .* start at 2 of the votes\.", view.inner_text())
    slider.press("ArrowRight")
    line = view.locator(".card p.small", has_text="Iteration 2").inner_text()
    assert words in line

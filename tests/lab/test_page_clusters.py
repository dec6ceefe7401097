"""Clusters in the browser: the picture says what its points and ellipses stand for."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from support.browser import Visit, inside_window
from torchcaps.lab.model_store import load_model_store
from torchcaps.lab.schemas import ClustersRequest
from torchcaps.lab.views import clusters
from torchcaps.routing import Routing

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


# How many places of the ellipses lie behind a label.
CROSSED = """plane => {
  const labels = [...plane.querySelectorAll(".names text")].map((one) => one.getBoundingClientRect());
  return [...plane.querySelectorAll("ellipse")].flatMap((one) => Array.from({ length: 200 }, (_, index) =>
    one.getPointAtLength((one.getTotalLength() * index) / 200).matrixTransform(one.getScreenCTM())))
    .filter(({ x, y }) => labels.some((box) =>
      box.left < x && x < box.right && box.top < y && y < box.bottom)).length;
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
    labels, listed = view.locator(".plane .names text"), view.locator(".capsule-list li")
    assert labels.all_text_contents() == [f"capsule {number}" for number in range(1, len(sizes) + 1)]
    for number, (size, text) in enumerate(zip(sizes, listed.all_inner_texts(), strict=True), 1):
        assert text.startswith(f"capsule {number}: {round(size)} votes, spread 0.")
    assert view.locator(".plane").evaluate(CROSSED) == 0
    assert view.locator(".button[aria-pressed=true]").all_inner_texts() == ["Agreement in noise"]
    for name in ("Three blobs", "A cross", "Small in large", "Pairs"):
        visit.response_to("clusters", view.get_by_role("button", name=name).click)
        boxes = [label.bounding_box() for label in labels.all()]
        plane = view.locator(".plane").bounding_box()
        covered = view.locator(".plane").evaluate(COVERED)
        assert covered <= (0 if name == "Three blobs" else 4), f"{name}: labels lie over points"
        assert view.locator(".plane").evaluate(CROSSED) == 0, f"{name}: labels lie across ellipses"
        assert view.locator(".button[aria-pressed=true]").all_inner_texts() == [name]
        for index, box in enumerate(boxes):
            assert plane["x"] <= box["x"], name
            assert box["x"] + box["width"] <= plane["x"] + plane["width"], name
            for other in boxes[:index]:
                apart = abs(box["y"] - other["y"]) >= 14 or abs(box["x"] - other["x"]) >= box["width"]
                assert apart, f"{name}: labels lie over each other"
    visit.page.reload()
    visit.wait_idle()
    assert view.locator(".button[aria-pressed=true]").all_inner_texts() == ["Pairs"], "the mark stays"
    view.locator(".plane").click(position={"x": 40, "y": 40})
    visit.wait_idle()
    assert view.locator(".button[aria-pressed=true]").count() == 0, "with one vote more it is another set"
    assert visit.errors == []


@pytest.mark.parametrize("name", ["Agreement in noise", "Small in large", "Pairs"])
def test_a_wide_ellipse_has_votes_that_lie_far_apart(visit: Visit, name: str) -> None:
    """For 40 random sets: the spread is a mean distance; the sentence names the widest and the narrowest."""
    visit.open("clusters")
    sets = visit.page.evaluate(
        """name => import('/static/js/views/point_sets.js').then(({ makeSet }) =>
          Array.from({ length: 40 }, (_, seed) => makeSet(name, seed)))""",
        name,
    )
    kind, said = ("rows" if name == "Pairs" else "full"), 0
    for seed, made in enumerate(sets):
        request = ClustersRequest(points=made["points"], clusters=2, kind=kind, iterations=30, seed=seed)  # type: ignore[arg-type]
        steps = clusters.fit(request).iterations
        step, points = steps[-1], np.array(made["points"])
        spreads, text = visit.page.evaluate(
            """([points, step, kind]) => import('/static/js/views/clusters.js').then((view) => {
              const spreads = view.spreadsOf(points, step);
              return [spreads, view.describeWide(spreads, kind)];
            })""",
            [made["points"], step.model_dump(), kind],
        )
        shares, places = np.array(step.assignment), np.arange(len(points)) % 2 * (kind == "rows")
        apart = []
        for index, spread in enumerate(spreads):
            mean = np.reshape(step.means[index], (-1, 2))[places]
            far = np.linalg.norm(points - mean, axis=1)
            assert spread == pytest.approx((shares[:, index] @ far) / shares[:, index].sum(), rel=1e-6)
            own = points[shares[:, index] > 0.5]
            apart.append(np.linalg.norm(own[:, None] - own, axis=-1).mean())
        assert bool(text) == (max(spreads) >= 2 * min(spreads))
        if text:
            wide, times, narrow = re.match(
                r"Capsule (\d) .* is (\S+) times that of capsule (\d), whose votes lie closer together\.",
                text,
            ).groups()  # type: ignore[union-attr]
            assert (int(wide), int(narrow)) == (int(np.argmax(apart)) + 1, int(np.argmin(apart)) + 1)
            shown = [float(f"{spread:.2g}") for spread in spreads]
            assert float(times) == pytest.approx(max(shown) / min(shown), abs=0.051)
            said += 1
        if name == "Agreement in noise":  # "the fit may get better for longer" than 3 iterations
            assert steps[-1].log_likelihood > steps[2].log_likelihood + 0.1  # type: ignore[operator]
    assert said == (0 if name == "Pairs" else 40)


def test_the_networks_of_the_lab_route_in_at_most_3_iterations() -> None:
    store, counted = load_model_store(), 0
    for info in store.info():
        modules = store[info.model, info.data].model.modules()
        iterations = [module.iterations for module in modules if isinstance(module, Routing)]
        assert all(1 <= count <= 3 for count in iterations), info.id
        counted += len(iterations)
    assert counted > 10


def test_new_starts_tries_twelve_others(visit: Visit) -> None:
    """ "This is tried twelve times, and the best fit is shown; New starts tries twelve others"."""
    assert clusters.STARTS == 12
    first = visit.response_to("clusters", lambda: visit.open("clusters"))["iterations"]
    view = visit.page.locator("#view-clusters")
    again = visit.response_to("clusters", view.get_by_role("button", name="New starts").click)["iterations"]
    assert first[0] != again[0]
    assert len(first[0]["assignment"]) == len(again[0]["assignment"]), "the votes stay"
    points = visit.page.evaluate(
        """() => import('/static/js/views/point_sets.js')
          .then(({ FIRST_SET, makeSet }) => makeSet(FIRST_SET, 0).points)"""
    )
    request = ClustersRequest(points=points, clusters=2, iterations=30)
    poses = clusters.to_poses(torch.tensor(points, dtype=torch.float64), "full")
    routing = clusters.choose_routing(request)
    starts = clusters.initial_assignments(poses, request)
    assert len(starts) == 12
    scores = clusters.score(routing, poses, clusters.run(routing, poses, starts)[-1])
    assert first[-1]["log_likelihood"] == pytest.approx(float(scores.max()), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "words"),
    [("Fixed σ", "one fixed size"), ("Rows", "a 2 × 2 matrix"), ("k-means", "nearest mean")],
)
def test_each_method_is_explained_under_the_pointer(visit: Visit, name: str, words: str) -> None:
    view = visit.open("clusters")
    assert words in view.locator(".choices label", has_text=name).get_attribute("title")
    assert "M step: each capsule is fitted" in view.get_by_text("E step:").get_attribute("title")
    visit.page.locator(".words-button:visible").click()
    if name != "k-means":
        assert visit.page.locator(".glossary dt", has_text=name).is_visible()


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

"""Misreadings and faults that visitors of the page met, one test for each."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.browser import Visit, inside_window
from support.color_vision import EYES, color_difference
from torchcaps import lab as lab_package
from torchcaps.lab.schemas import ClustersRequest
from torchcaps.lab.views import clusters
from torchcaps.lab.views.votes import TWINS

pytest_plugins = ["support.browser_fixtures"]

TOKENS = Path(lab_package.__file__).parent / "static" / "style" / "tokens.css"


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "faults")
    page.close()


def headline(view: Any, index: int = 0) -> str:
    return view.locator(".verdict .big").nth(index).inner_text()


def test_draw_and_votes_show_the_same_numbers(visit: Visit) -> None:
    draw = visit.open("draw")
    lengths = draw.locator(".bars .value").all_inner_texts()
    votes = visit.open("votes?routing=draw")
    votes.get_by_role("slider", name="Iteration", exact=True).press("End")
    bars = votes.get_by_role("list", name="Activation of each digit")
    assert bars.locator(".value").all_inner_texts() == lengths


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("draw", ["capsnet_small-mnist"]),
        ("tweak", ["capsnet_small-mnist"]),
        ("overlap", ["capsnet_small-multimnist", "capsnet_cnn-multimnist"]),
        (
            "votes?routing=draw",
            ["capsnet_small-mnist", *(f"capsule_head-mnist-twin-{name}" for name in TWINS)],
        ),
        ("toy", ["matrix_capsnet_small-toys", "pooled_cnn-toys"]),
        ("attack", ["shared_capsnet-mnist", "pooled_cnn-mnist"]),
        ("parts", ["parts_capsnet-shapes", "parts_cnn-shapes"]),
        ("compare", ["shared_capsnet-mnist", "pooled_cnn-mnist"]),
    ],
)
def test_every_result_names_its_network(visit: Visit, name: str, models: list[str]) -> None:
    """A plain name and the size at once; the name in the library and the recipe after a click."""
    view = visit.open(name)
    networks = view.locator(".network:visible")
    networks.nth(len(models) - 1).wait_for()
    status = {
        model["id"]: model
        for model in visit.page.evaluate("fetch('api/status').then((r) => r.json())")["models"]
    }
    assert networks.count() == len(models)
    for network, model in zip(networks.all(), models, strict=True):
        line = network.inner_text()
        assert re.match(r"(Matrix capsule|Capsule) network |CNN |Twin with ", line), line
        assert "parameters" in line
        assert "_" not in line
        network.locator("summary").click()
        text = network.locator("p").inner_text()
        assert text == f"Name in the library: {model} · recipe {status[model]['recipe']}"


def test_the_error_of_a_network_is_beside_its_name(visit: Visit) -> None:
    def measured(route: Any) -> None:
        answer = route.fetch().json()
        for model in answer["models"]:
            model["metrics"] = {"error": 0.0123, "count": 10000}
        route.fulfill(json=answer)

    visit.page.route("**/api/status", measured)
    line = visit.open("draw").locator(".network").inner_text()
    assert line.endswith("961K parameters · 1.23% errors on 10,000 test images of MNIST")


@pytest.mark.parametrize(
    "name", ["draw", "tweak", "overlap", "votes", "parts", "toy", "clusters", "attack", "compare"]
)
def test_no_identifier_is_shown_before_it_is_asked_for(visit: Visit, name: str) -> None:
    visit.open(name)
    text = visit.page.locator("body").inner_text()
    assert re.findall(r"\w+_\w+|\bkernels?\b|mnist-\w+", text) == []


def test_a_full_bar_means_certain_for_both_networks(visit: Visit) -> None:
    view = visit.open("overlap")
    for name in ("Capsule lengths", "Scores of the convolutional network"):
        rows = view.get_by_role("list", name=name).locator("li")
        for row in rows.all():
            filled = row.locator(".bar").evaluate(
                "bar => 100 * (bar.firstElementChild.nextElementSibling.getBoundingClientRect().right "
                "- bar.getBoundingClientRect().left) / bar.clientWidth"
            )
            value = float(row.locator(".value").inner_text())
            assert filled == pytest.approx(100 * value, abs=1.1)
    bars = view.get_by_role("list", name="Scores of the convolutional network")
    assert bars.evaluate("bars => bars.style.getPropertyValue('--mark')") == "50%"


def test_the_lines_of_the_pose_use_their_own_range(visit: Visit) -> None:
    answer = visit.response_to("turn", lambda: visit.open("toy"))
    view = visit.page.locator("#view-toy")
    moved = view.get_by_role("list", name="How far the pose moves").locator("li")
    assert [name.split("\n")[0] for name in moved.all_inner_texts()] == ["a full turn", "all 6 lightings"]
    for row, share in zip(moved.all(), (answer["turn_moves"], answer["light_moves"]), strict=True):
        assert row.locator(".value").inner_text() == f"{100 * share:.0f} %"
    lines = view.locator(".matrix polyline").evaluate_all("all => all.map(l => l.getAttribute('points'))")
    poses = np.array([*answer["poses"], answer["poses"][0]])
    for points, values in zip(lines, poses.T, strict=True):
        heights = [-float(point.split(",")[1]) for point in points.split()]
        assert max(heights) - min(heights) > 30, "from the lowest to the highest value"
        assert np.corrcoef(heights, values)[0, 1] > 0.99
    ring = view.get_by_role("slider", name="Azimuth")
    before = view.locator(".matrix .now").first.get_attribute("x1")
    visit.response_to("toy", lambda: ring.press("PageUp"))
    assert view.locator(".matrix .now").first.get_attribute("x1") != before
    visit.response_to("turn", lambda: view.get_by_role("slider", name="Instance").press("ArrowRight"))
    assert view.locator(".matrix polyline").first.get_attribute("points") != lines[0]


def fits(groups: list[list[list[float]]], step: Any) -> bool:
    """Whether a mixture has one component for each group of points."""
    means, spread = np.array(step.means), np.array(step.covariances)
    truth = [np.array(group) for group in groups]

    def same(cluster: int, group: np.ndarray) -> bool:
        expected = np.cov(group.T)
        off = np.linalg.norm(spread[cluster] - expected) / np.linalg.norm(expected)
        return bool(off < 0.5 and np.linalg.norm(means[cluster] - group.mean(0)) < 0.12)

    orders = itertools.permutations(range(len(truth)))
    return any(all(same(cluster, truth[group]) for cluster, group in enumerate(order)) for order in orders)


def pairs_fit(groups: list[list[list[float]]], step: Any) -> bool:
    """Whether each group of pairs is one cluster, with the means of its first and second points."""
    chosen = np.argmax(step.assignment, 1)
    split = np.split(chosen, np.cumsum([len(group) for group in groups])[:-1])
    if any(len(np.unique(part)) != 1 for part in split) or len({int(part[0]) for part in split}) != len(
        groups
    ):
        return False
    return all(
        np.abs(np.reshape(step.means[part[0]], (2, 2)) - np.reshape(group, (-1, 2, 2)).mean(0)).max() < 0.02
        for part, group in zip(split, groups, strict=True)
    )


@pytest.mark.parametrize("count", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_the_point_sets_are_found_with_the_default_settings(visit: Visit, count: int) -> None:
    visit.open("clusters")
    sets = visit.page.evaluate(
        """async (count) => {
          const { FIRST_SET, makeSet, SET_NAMES } = await import("/static/js/views/point_sets.js");
          const seeds = Array.from({ length: count }, (_, seed) => seed);
          return [FIRST_SET, ...SET_NAMES].map((name) => [name, seeds.map((seed) => makeSet(name, seed))]);
        }""",
        count,
    )
    assert len(sets) == 7
    (first, _), *sets = sets
    for name, made in sets:
        found = 0
        for seed, points in enumerate(made):
            request = ClustersRequest(
                points=points["points"],
                clusters=points["clusters"],
                kind=points.get("kind", "full"),
                iterations=30,
                seed=seed,
            )
            steps = clusters.fit(request).iterations
            last = steps[-1]
            if name == first:  # there is something to watch: half of the rise comes after the third iteration
                values = [step.log_likelihood for step in steps]
                assert values[2] < (values[0] + values[-1]) / 2 < values[-1] - 0.2, seed
            found += pairs_fit(points["groups"], last) if name == "Pairs" else fits(points["groups"], last)
        assert found == count, (name, found)


@pytest.mark.parametrize(("view", "chart"), [("toy", ".ring"), ("clusters", ".plane")])
def test_a_click_draws_no_outline(visit: Visit, view: str, chart: str) -> None:
    element = visit.open(view).locator(chart)
    element.click(position={"x": 60, "y": 60})
    assert element.evaluate("chart => getComputedStyle(chart).outlineStyle") == "none"
    element.press("ArrowRight")
    assert element.evaluate("chart => getComputedStyle(chart).outlineStyle") == "solid"


def test_undo_brings_back_cleared_points(visit: Visit) -> None:
    view = visit.open("clusters")
    before = headline(view)
    view.get_by_role("button", name="Clear").click()
    assert headline(view) == "0 votes"
    view.get_by_role("button", name="Undo").click()
    assert headline(view) == before


def test_a_new_pair_is_marked_among_the_examples(visit: Visit) -> None:
    view = visit.open("overlap")
    for _ in range(6):
        visit.response_to("overlap", view.get_by_role("button", name="New pair").click)
        assert view.locator(".thumbs [aria-pressed=true]").count() == 2


def test_the_pairs_on_which_one_network_is_right(visit: Visit) -> None:
    view = visit.open("overlap")
    row = view.locator(".row", has_text="Examples on which one network is wrong").get_by_role("button")
    right = []
    for button in row.all():
        visit.response_to("overlap", button.click)
        correct = ["both correct" in text for text in view.locator(".verdict").all_inner_texts()]
        assert sum(correct) == 1, button.inner_text()
        right.append(correct.index(True))
    assert right.count(0) == right.count(1) == 2, "each network as often as the other"


def test_least_overlap_shares_the_least_ink(visit: Visit) -> None:
    view = visit.open("overlap")
    ink = []
    visit.page.on(
        "request", lambda request: request.url.endswith("overlap") and ink.append(request.post_data_json)
    )
    visit.response_to("overlap", view.get_by_role("button", name="Move them apart").click)
    least = np.array(ink[-1]["image"]).sum()
    for _ in range(4):  # any other place has less ink in all, because more of it is shared
        visit.response_to(
            "overlap", lambda: view.get_by_role("button", name="Move the second").press("ArrowUp")
        )
        assert np.array(ink[-1]["image"]).sum() <= least + 0.5


def test_two_digits_of_one_class_are_named_once(visit: Visit) -> None:
    view = visit.open("overlap")
    for row in ("First digit", "Second digit"):
        group = view.get_by_role("group", name=row)
        visit.response_to("overlap", group.get_by_role("button", name="Example of 7").click)
    assert "one class count once" in view.locator(".verdict .words").first.inner_text()


def test_each_square_of_a_coupling_map_is_one_position(visit: Visit) -> None:
    view = visit.open("draw")
    colors = (
        view.locator(".maps canvas")
        .nth(2)
        .evaluate(
            """canvas => {
          const side = canvas.width / 6;
          const at = (x, y) => canvas.getContext("2d").getImageData(x, y, 1, 1).data.slice(0, 3).join();
          const square = (row, column) => [0.3, 0.5, 0.7].flatMap((v) => [0.3, 0.5, 0.7].map((u) =>
            at(Math.floor((column + u) * side), Math.floor((row + v) * side))));
          return [0, 1, 2, 3, 4, 5].map((row) => new Set(square(row, 0)).size);
        }"""
        )
    )
    assert min(colors) == 1, "where nothing is drawn, a square has one color"
    assert "17 × 17 pixels" in view.locator(".field").inner_text()
    corner = view.locator(".maps canvas").first
    visit.expect_change(view.locator(".field canvas"), lambda: corner.hover(position={"x": 5, "y": 5}))


@pytest.mark.parametrize("eyes", EYES)
def test_the_colors_of_clusters_differ_for_all_eyes(eyes: str) -> None:
    for theme in TOKENS.read_text().split("}")[:2]:
        colors = re.findall(r"--c\d: (#\w{6})", theme)
        assert len(colors) == 8
        nearest = min(color_difference(*pair, eyes) for pair in itertools.combinations(colors, 2))
        assert nearest > 20, (eyes, nearest)


def test_clusters_have_different_shapes(visit: Visit) -> None:
    view = visit.open("clusters")
    visit.response_to("clusters", view.get_by_role("button", name="Three blobs").click)
    shapes = view.locator(".points > path").evaluate_all("dots => dots.map(dot => dot.getAttribute('d'))")
    assert len(set(shapes)) == 3


def test_a_reload_keeps_the_drawing(visit: Visit) -> None:
    view = visit.open("draw")
    pad = view.locator("canvas.pad")
    view.get_by_role("button", name="Clear").click()
    visit.response_to("draw", lambda: visit.stroke(pad, (0.28, 0.22), (0.72, 0.22), (0.45, 0.8)))
    visit.wait_idle()  # the page may ask about a part of the stroke first
    before = view.locator(".bars .value").all_inner_texts()
    visit.page.reload()
    view.locator(".verdict .big:not(:empty)").wait_for()
    visit.wait_idle()
    assert view.locator(".bars .value").all_inner_texts() == before


def test_a_reload_keeps_the_settings(visit: Visit) -> None:
    view = visit.open("votes")
    visit.response_to("votes", view.locator(".choices").get_by_text("Network of Draw").click)
    view = visit.open("toy")
    visit.response_to("toy", lambda: view.get_by_role("slider", name="Azimuth").press("PageUp"))
    visit.page.reload()
    visit.wait_idle()
    assert view.get_by_role("slider", name="Azimuth").get_attribute("aria-valuenow") == "40"
    assert "#toy?" in visit.page.url


def test_every_view_has_its_own_title(visit: Visit) -> None:
    titles = set()
    tabs = visit.page.goto(visit.url) and visit.page.get_by_role("tab").all()
    for tab in tabs:
        tab.click()
        visit.page.wait_for_function("name => document.title.startsWith(name)", arg=tab.inner_text())
        titles.add(visit.page.title())
    assert len(titles) == len(tabs)


def test_an_answer_that_is_late_is_not_called_an_empty_pad(visit: Visit) -> None:
    view = visit.open("draw")
    view.get_by_role("button", name="Clear").click()
    view.get_by_text("Nothing drawn yet").wait_for()
    visit.page.route("**/api/draw", lambda route: route.abort())
    visit.stroke(view.locator("canvas.pad"), (0.3, 0.2), (0.5, 0.8))
    visit.page.get_by_text("The server does not respond").wait_for()
    assert "Nothing drawn yet" not in view.locator(".verdict").first.inner_text()


def test_views_without_a_drawing_link_to_the_pad(visit: Visit) -> None:
    visit.open("draw").get_by_role("button", name="Clear").click()
    for name in ("tweak", "votes", "attack"):
        visit.page.get_by_role("tab", name=name.capitalize()).click()
        link = visit.page.locator(f"#view-{name} .notice").get_by_role("link", name="Draw a digit")
        link.click()
        visit.page.locator("#view-draw canvas.pad").wait_for()


def test_a_link_carries_the_drawing_and_the_settings(visit: Visit, browser: Any) -> None:
    view = visit.open("draw")
    pad = view.locator("canvas.pad")
    visit.response_to("draw", lambda: visit.stroke(pad, (0.28, 0.22), (0.72, 0.22), (0.45, 0.8)))
    lengths = view.locator(".bars .value").all_inner_texts()
    votes = visit.open("votes")
    visit.response_to("votes", votes.locator(".choices").get_by_text("Network of Draw").click)
    link = visit.page.evaluate("import('/static/js/core/share.js').then(({ shareLink }) => shareLink())")
    page = browser.new_page(reduced_motion="reduce")
    other = Visit(page, visit.url, "shared")
    page.goto(link)
    page.locator("#view-votes .dots circle").first.wait_for()
    other.wait_idle()
    assert page.locator("#view-votes").get_by_role("radio", name="Network of Draw").is_checked()
    view = other.open("draw")
    assert view.locator(".bars .value").all_inner_texts() == lengths
    assert other.errors == []
    page.close()


def test_a_damaged_link_opens_the_page(visit: Visit) -> None:
    visit.page.goto(f"{visit.url}/#draw?drawing=%25%25")
    visit.page.locator("#view-draw .verdict .big:not(:empty)").wait_for()
    assert visit.open("parts").locator(".card").count() > 0
    visit.page.goto("about:blank")
    visit.page.goto(f"{visit.url}/#parts?scene=99_x~0_0_0_0_0.5~_~-7_0_0_0_1")
    visit.page.locator("#view-parts .object").first.wait_for()
    visit.wait_idle()
    assert visit.page.locator("#view-parts .object").count() == 1
    assert visit.errors == []


def test_tweak_shows_the_length_of_the_numbers(visit: Visit) -> None:
    view = visit.open("tweak")
    words = view.locator(".verdict .words")
    first = re.fullmatch(r"length (\d\.\d\d)", words.inner_text())
    assert first, "once, as long as nothing is moved"
    ends = [float(text.replace("−", "-")) for text in view.locator(".slider-ends span").all_text_contents()]
    slider = view.get_by_role("slider", name="Dimension 1", exact=True)
    assert ends == pytest.approx([float(slider.get_attribute(name)) for name in ("min", "max")], abs=0.01)
    assert inside_window(visit.page, view.get_by_text("Click a picture to set the number."))
    visit.response_to("tweak", lambda: slider.press("ArrowRight"))
    length = re.search(r"length (\d\.\d\d); in your drawing (\d\.\d\d)", words.inner_text())
    assert length
    assert length[2] == first[1]
    assert float(length[1]) == pytest.approx(float(length[2]), abs=0.03)
    for number in (1, 2, 3, 4):
        slider = view.get_by_role("slider", name=f"Dimension {number}", exact=True)
        visit.response_to("tweak", lambda slider=slider: slider.press("End"))  # type: ignore[misc]
    assert "No capsule is longer than 1" in words.inner_text()

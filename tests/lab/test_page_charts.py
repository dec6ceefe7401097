"""Charts of the page: numbers on the axes, values under the pointer, and sentences that say what is drawn."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.browser import Visit

pytest_plugins = ["support.browser_fixtures"]


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "charts")
    page.close()


def axis_numbers(chart: Any, anchor: str) -> list[float]:
    texts = chart.locator(f'.grid text[text-anchor="{anchor}"]:not(.axis-name)').all_text_contents()
    return [float(text.replace("−", "-").rstrip(" %")) for text in texts]


def corners(line: Any) -> list[tuple[float, float]]:
    """The points of a polyline."""
    numbers = list(map(float, re.findall(r"[\d.]+", line.get_attribute("points"))))
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def expected_headline(answer: dict[str, Any]) -> str:
    first = {"the capsules": answer["capsules"]["changes_at"], "the CNN": answer["cnn"]["changes_at"]}
    changed = {name: at for name, at in first.items() if at is not None}
    if not changed:
        return "Neither changes"
    if len(changed) == 2 and first["the capsules"] == first["the CNN"]:
        return f"Both change between ε = {' and '.join(before_and_at(answer, 'cnn'))}"
    return f"First to change: {min(changed, key=lambda name: changed[name])}"


def before_and_at(answer: dict[str, Any], network: str) -> list[str]:
    """The last ε that was tried without a change, and the first with one."""
    at = answer["epsilons"].index(answer[network]["changes_at"])
    return [f"{value:.2f}" for value in answer["epsilons"][at - 1 : at + 1]]


@pytest.mark.parametrize("method", ["FGSM", "PGD"])
def test_the_headline_names_the_network_that_changes_first(visit: Visit, method: str) -> None:
    for digit in (0, 1, 4, 7):
        draw = visit.open("draw")
        visit.response_to("draw", draw.get_by_role("button", name=f"Example of {digit}").click)
        answer = visit.response_to("attack", lambda: visit.open(f"attack?method={method.lower()}"))
        view = visit.page.locator("#view-attack")
        big, words = view.locator(".verdict").first.locator("b, span").all_inner_texts()
        assert big == expected_headline(answer)
        for network in ("capsules", "cnn"):
            at = answer[network]["changes_at"]
            named = (
                f"{answer['epsilons'][-1]:.2f}"
                if at is None
                else " and ".join(before_and_at(answer, network))
            )
            assert named in big + words
    assert visit.errors == []


def test_the_curves_of_an_attack_have_axes_marks_and_values(visit: Visit) -> None:
    visit.open("draw")
    answer = visit.response_to("attack", lambda: visit.open("attack"))
    view = visit.page.locator("#view-attack")
    for index, network in enumerate(("capsules", "cnn")):
        chart, curve = view.locator(".line-figure").nth(index), answer[network]
        assert axis_numbers(chart, "middle")[:2] == [0, 0.05]
        figure, picture = (each.bounding_box() for each in (chart, chart.locator(".line-chart")))
        assert picture["y"] + picture["height"] <= figure["y"] + figure["height"] + 1, "nothing lies over it"
        assert axis_numbers(chart, "end") == [0, 0.5, 1] or len(axis_numbers(chart, "end")) >= 4
        marks = chart.locator(".marks text").all_text_contents()
        at = curve["changes_at"]
        assert marks == (
            [] if at is None else ["changes between " + " and ".join(before_and_at(answer, network))]
        )
        if at is not None:
            mark = float(chart.locator(".marks line").get_attribute("x1"))
            lines = [corners(line) for line in chart.locator(".line-chart polyline").all()]
            one, two = (np.interp(mark, *zip(*line)) for line in lines)
            assert one == pytest.approx(two, abs=0.5), "it stands where the lines cross"
        chart.locator(".line-chart").hover(position={"x": 300, "y": 80})
        text = chart.locator(".readout").inner_text()
        epsilon, score = re.match(r"ε = (.+): \d has ([\d.]+)", text).groups()  # type: ignore[union-attr]
        row = answer["epsilons"].index(pytest.approx(float(epsilon)))
        assert 0 < row < len(curve["scores"]) - 1
        assert float(score) == pytest.approx(curve["scores"][row][curve["before"]], abs=6e-3)


def test_a_click_on_a_curve_sets_epsilon_and_shows_the_bars_before_the_attack(visit: Visit) -> None:
    visit.open("draw")
    answer = visit.response_to("attack", lambda: visit.open("attack"))
    view = visit.page.locator("#view-attack")
    view.locator(".line-chart").first.click(position={"x": 400, "y": 80})
    epsilon = float(view.get_by_role("slider").input_value())
    row = answer["epsilons"].index(pytest.approx(epsilon))
    assert epsilon > 0.2
    bars = view.get_by_role("list", name="Scores of CNN under attack").locator("li")
    for digit, bar in enumerate(bars.all()):
        before, now = bar.locator(".bar").evaluate(
            "({ children: [ghost, fill] }) => [ghost.style.width, fill.style.transform.match(/[\\d.]+%/)[0]]"
            ".map(parseFloat)"
        )
        assert before == pytest.approx(100 * answer["cnn"]["scores"][0][digit], abs=0.1)
        assert now == pytest.approx(100 * answer["cnn"]["scores"][row][digit], abs=0.1)


def test_a_click_on_a_picture_sets_one_number(visit: Visit) -> None:
    view = visit.open("tweak")
    sent: list[dict[str, Any]] = []
    visit.page.on(
        "request", lambda request: request.url.endswith("/tweak") and sent.append(request.post_data_json)
    )
    strips = view.locator(".picture-strip")
    assert strips.count() == 16
    box = strips.nth(4).bounding_box()
    first = visit.response_to("tweak", lambda: strips.nth(4).click(position={"x": box["width"] / 2, "y": 9}))
    visit.response_to("tweak", lambda: strips.nth(4).click(position={"x": box["width"] * 8.5 / 11, "y": 9}))
    before, after = sent[0]["pose"], sent[-1]["pose"]
    assert after[4] - before[4] == pytest.approx(first["offsets"][8], abs=1e-3)
    assert before[:4] + before[5:] == after[:4] + after[5:]


def test_each_slider_has_a_mark_at_its_first_value_and_its_own_reset(visit: Visit) -> None:
    view = visit.open("tweak")
    words = view.locator(".verdict .words")
    start = words.inner_text()
    slider = view.get_by_role("slider", name="Dimension 3", exact=True)
    value, row = slider.input_value(), view.locator(".dimension:not(.offsets)").nth(2)
    reset, mark = row.get_by_role("button", name="Reset dimension 3"), row.locator(".home")
    limits = [float(slider.get_attribute(name)) for name in ("min", "max")]
    share = float(mark.evaluate("mark => mark.style.getPropertyValue('--at')"))
    assert limits[0] + share * (limits[1] - limits[0]) == pytest.approx(float(value), abs=0.01)
    box = mark.bounding_box()
    assert reset.is_disabled()
    visit.response_to("tweak", lambda: slider.press("End"))
    other = view.get_by_role("slider", name="Dimension 5", exact=True)
    visit.response_to("tweak", lambda: other.press("PageUp"))
    assert mark.bounding_box() == box
    visit.response_to("tweak", reset.click)
    assert slider.input_value() == value
    assert words.inner_text() != start, "the other number stays changed"
    visit.response_to("tweak", view.get_by_role("button", name="Reset all").click)
    assert words.inner_text() == start


def test_dragging_the_picture_turns_the_toy(visit: Visit) -> None:
    view = visit.open("toy")
    left, ring = view.get_by_role("img", name="Left eye"), view.get_by_role("slider", name="Azimuth")
    elevation = view.get_by_role("slider", name="Elevation")
    before = int(ring.get_attribute("aria-valuenow")), int(elevation.input_value())
    visit.expect_change(left, lambda: visit.stroke(left, (0.3, 0.5), (0.7, 0.5)))
    visit.wait_idle()
    turned = int(ring.get_attribute("aria-valuenow"))
    assert turned > before[0] + 20
    assert int(elevation.input_value()) == before[1]
    visit.expect_change(left, lambda: visit.stroke(left, (0.5, 0.3), (0.5, 0.7)))
    visit.wait_idle()
    assert int(elevation.input_value()) > before[1] + 5
    assert int(ring.get_attribute("aria-valuenow")) == turned


def test_the_accuracy_around_the_ring_has_counts_and_confidence(visit: Visit) -> None:
    view = visit.open("toy")
    measured = visit.page.evaluate("fetch('api/toys').then((answer) => answer.json())")["accuracy"]
    chart = view.locator(".toy-accuracy .line-figure")
    assert axis_numbers(chart, "middle") == [0, 60, 120, 180, 240, 300]
    wins = sum(ours["share"] > cnn["share"] for ours, cnn in zip(measured["capsules"], measured["cnn"]))
    message = view.locator(".toy-accuracy .message").inner_text()
    assert wins == 18, "in every direction"
    clear = sum(
        ours["share"] - cnn["share"]
        > 2 * sum(each["share"] * (1 - each["share"]) / count for each in (ours, cnn)) ** 0.5
        for ours, cnn, count in zip(measured["capsules"], measured["cnn"], measured["count"], strict=True)
    )
    assert 0 < clear < wins, "some bands touch"
    assert message.startswith(
        f"The capsules are right more often in {wins} of 18 directions, in {clear} of them by more than"
    )
    models = visit.page.evaluate("fetch('api/status').then((answer) => answer.json())")["models"]
    small, large = (
        next(each["num_params"] for each in models if each["id"] == name)
        for name in ("matrix_capsnet_small-toys", "pooled_cnn-toys")
    )
    assert f"{100 * small / large:.0f} % of the CNN's parameters: {small / 1e3:.3g}K against" in message
    for part in (".ring", ".toy-accuracy", ".toy-seen", ".verdict"):
        box = view.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= 900, "in the first window"
    assert [text for text in view.locator(".matrix .cell").all_inner_texts() if text == "−0.00"] == []
    text = chart.locator(".readout").inner_text()
    share = measured["capsules"][1]
    assert text.startswith("20°: the capsules " + f"{100 * share['share']:.1f} % ({100 * share['low']:.1f}–")
    assert f"{measured['count'][1]:,} images" in text
    visit.response_to("toy", lambda: chart.locator(".line-chart").click(position={"x": 250, "y": 100}))
    azimuth = view.get_by_role("slider", name="Azimuth").get_attribute("aria-valuenow")
    assert int(azimuth) % 20 == 0
    assert chart.locator(".readout").inner_text().startswith(f"{azimuth}°")
    assert visit.errors == []


def test_pairs_are_joined_and_have_two_means(visit: Visit) -> None:
    view = visit.open("clusters")
    answer = visit.response_to("clusters", view.get_by_role("button", name="Pairs").click)
    assert view.get_by_role("radio", name="Rows").is_checked()
    points = len(answer["iterations"][-1]["assignment"])
    assert view.locator(".plane .pair-line").count() == points / 2
    assert view.locator(".plane .means .cross").count() == 4
    assert view.locator(".plane .ellipses ellipse").count() == 8, "one and two deviations around each mean"
    ellipses = view.locator(".plane .ellipses ellipse.inner").evaluate_all(
        "all => all.map((one) => [one.getAttribute('rx'), one.getAttribute('ry')].join())"
    )
    assert len(set(ellipses)) == 2, "both means of a cluster have one covariance"
    radii = {
        ring: view.locator(f".plane .ellipses .{ring}").first.evaluate(
            "one => [one.rx, one.ry].map((radius) => radius.baseVal.value)"
        )
        for ring in ("inner", "outer")
    }
    variances = np.linalg.eigvalsh(answer["iterations"][-1]["covariances"][0])[::-1]
    assert radii["inner"] == pytest.approx(200 * np.sqrt(variances), rel=0.01), "a unit is 200 pixels"
    assert radii["outer"] == pytest.approx([2 * radius for radius in radii["inner"]], rel=0.01)
    chart = view.locator(".line-figure")
    assert axis_numbers(chart, "end"), "also where all values are almost equal"
    visit.page.reload()
    visit.wait_idle()
    assert view.locator(".plane .pair-line").count() == points / 2


def test_the_log_likelihood_has_axes_and_values(visit: Visit) -> None:
    answer = visit.response_to("clusters", lambda: visit.open("clusters"))
    chart = visit.page.locator("#view-clusters .line-figure")
    assert "iteration →" in chart.locator(".axis-name").text_content()
    numbers, values = axis_numbers(chart, "middle"), [step["log_likelihood"] for step in answer["iterations"]]
    assert (numbers[0], numbers[-1]) == (1, len(values))
    assert min(axis_numbers(chart, "end")) <= min(values) <= max(values) <= max(axis_numbers(chart, "end"))
    chart.locator(".line-chart").hover(position={"x": 60, "y": 60})
    text = chart.locator(".readout").inner_text()
    step, value = re.match(r"iteration (\d+): log-likelihood (\S+) per vote", text).groups()  # type: ignore[union-attr]
    expected = answer["iterations"][int(step) - 1]["log_likelihood"]
    assert float(value.replace("−", "-")) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("width", [1440, 390])
def test_texts_of_charts_have_the_size_of_the_page(browser: Any, lab: str, width: int) -> None:
    """A chart that is scaled would scale its texts: there would be more than five sizes."""
    page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    visit = Visit(page, lab, "sizes")
    for name in ("votes", "toy", "clusters", "attack"):
        view = visit.open(name)
        scales = view.locator(".line-chart, .strips").evaluate_all(
            "all => all.filter((one) => one.checkVisibility()).map((one) => one.getScreenCTM().a)"
        )
        assert scales, name
        assert all(scale == pytest.approx(1, abs=0.02) for scale in scales), (name, scales)
    page.close()


def test_the_dots_of_the_votes_are_apart(visit: Visit) -> None:
    """Few votes with a very low density do not press all others into one column."""
    visit.open("draw")
    twins = visit.response_to("twins", lambda: visit.open("votes"))["twins"]
    cards = visit.page.locator("#view-votes .twin")
    for card, twin in zip(cards.all(), twins, strict=True):
        svg = card.locator(".strips")
        places = svg.locator(".best circle").evaluate_all(
            "all => all.map((dot) => Number(dot.getAttribute('cx')))"
        )
        width = float(svg.get_attribute("viewBox").split()[2])
        low, high = sorted(places)[len(places) // 10], sorted(places)[-len(places) // 10]
        assert high - low > 0.05 * width, twin["routing"]
        step, note = twin["iterations"][-1], card.locator("p", has_text="at the left edge")
        if note.is_visible():
            count, low = re.match(r"(\d+) dots .* below (\S+)\.", note.inner_text()).groups()  # type: ignore[union-attr]
            limit = float(low.replace("−", "-"))
            below = [sum(value < limit + by for row in step["agreements"] for value in row) for by in (-1, 1)]
            assert below[0] <= int(count) <= below[1]


def test_all_numbers_of_an_axis_are_inside_the_chart(visit: Visit) -> None:
    for name in ("clusters", "toy", "attack", "votes"):
        for chart in visit.open(name).locator(".line-chart:visible").all():
            box = chart.bounding_box()
            for text in chart.locator(".grid text").all():
                place = text.bounding_box()
                assert place["x"] >= box["x"] - 1, (name, text.text_content())
                assert place["x"] + place["width"] <= box["x"] + box["width"] + 1, (name, text.text_content())

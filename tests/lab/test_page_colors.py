"""Colors that stand for values: one role for each, and a bar with its numbers beside each picture."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.browser import Visit

pytest_plugins = ["support.browser_fixtures"]

PIXELS = "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(
        viewport={"width": 1440, "height": 900}, reduced_motion="reduce", color_scheme="light"
    )
    yield Visit(page, lab, "colors")
    page.close()


def numbers(bar: Any) -> list[float]:
    """What a color bar says, from left to right."""
    texts = bar.locator(".numbers span").all_text_contents()
    return [float(text.strip("≤ ×").replace("−", "-")) for text in texts]


def signs(canvas: Any) -> tuple[bool, bool]:
    """Whether a picture has the colors of values above and below zero, purple and green."""
    red, green, blue = np.array(canvas.evaluate(PIXELS)).reshape(-1, 4)[:, :3].T
    return bool((red > green + 25).any()), bool((green > blue + 25).any())


def test_purple_and_green_stand_for_values_above_and_below_zero_alone(visit: Visit) -> None:
    view = visit.open("draw")
    stages = view.locator(".network-strip canvas")
    assert signs(stages.nth(3)) == (True, True), "the numbers of votes have signs"
    sent = [stages.nth(4), *view.locator(".maps canvas").all()]
    assert len(sent) == 11
    for canvas in sent:
        assert signs(canvas) == (False, False), "what is sent has none"
    assert "urple" not in view.inner_text()


def assert_one_scale(view: Any, largest: float) -> None:
    """The same number has the same color among the votes and among the capsules."""
    cells = view.locator(".vote-table .cells rect").evaluate_all(
        "all => all.map((one) => [one.textContent.split('= ')[1], one.getAttribute('fill')])"
    )
    for value, fill in cells:
        share = abs(float(value.replace("−", "-"))) / largest
        assert float(fill.split(") ")[1].split("%")[0]) == pytest.approx(100 * share, abs=1)


def test_every_picture_of_values_in_draw_has_its_numbers(visit: Visit) -> None:
    answer = visit.response_to("draw", lambda: visit.open("draw"))
    view = visit.page.locator("#view-draw")
    lengths, sent = np.array(answer["primary"]), np.array(answer["couplings"])
    votes = max(np.abs(answer["history"]).max(), np.abs(answer["capsule"]["votes"]).max())
    largest = (sent / sent[0]).max()
    stages = view.locator(".network-strip li")
    expected = {1: [0, 1], 2: [lengths.min(), lengths.max()], 3: [-votes, 0, votes], 4: [1, largest]}
    for stage, values in expected.items():
        assert numbers(stages.nth(stage).locator(".color-bar")) == pytest.approx(values, abs=0.06), stage
    table = view.locator(".vote-table .color-bar")
    assert table.count() == 1, "votes and capsules have one scale"
    assert numbers(table) == pytest.approx([-votes, 0, votes], abs=0.06)
    assert_one_scale(view, votes)
    assert numbers(view.locator(".coupling-grid .color-bar")) == pytest.approx([1, largest], abs=0.06)
    assert largest > 1.1


def test_the_colors_of_a_bar_are_those_of_its_picture(visit: Visit) -> None:
    """The ends of the bars of votes and of what is sent have the full colors of the theme."""
    view = visit.open("draw")
    theme = visit.page.evaluate(
        """() => ["more", "less", "above"].map((name) => {
          const probe = Object.assign(document.createElement("p"), { style: `color: var(--${name})` });
          document.body.append(probe);
          return getComputedStyle(probe).color;
        })"""
    )
    image = "bar => getComputedStyle(bar.querySelector('i')).backgroundImage"
    stages = view.locator(".network-strip li")
    signed, above = (stages.nth(at).locator(".color-bar").evaluate(image) for at in (3, 4))
    assert theme[0] in signed
    assert theme[1] in signed
    assert theme[2] in above


def test_changes_of_pixels_and_poses_have_their_numbers(visit: Visit) -> None:
    visit.open("draw")
    view = visit.open("attack")
    epsilon = float(view.get_by_role("slider").input_value())
    for bar in view.locator(".color-bar").all():
        assert numbers(bar) == pytest.approx([-epsilon, 0, epsilon], abs=0.006)
    assert view.locator(".color-bar").count() == 2
    view = visit.open("compare?attack=fgsm&epsilon=0.3")
    bars = view.locator(".color-bar:visible")
    bars.nth(1).wait_for()
    assert [numbers(bar) for bar in bars.all()] == [[-0.3, 0, 0.3]] * 2
    answer = visit.response_to("toy", lambda: visit.open("toy"))
    largest = np.abs(answer["capsules"]["pose"]).max()
    bar = visit.page.locator("#view-toy .color-bar")
    assert numbers(bar) == pytest.approx([-largest, 0, largest], abs=0.006)
    assert visit.errors == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_first_clusters_are_neither_purple_nor_green(browser: Any, lab: str, theme: str) -> None:
    """Four colors are enough for the point sets and the twins; they are not those of values."""
    page = browser.new_page(reduced_motion="reduce", color_scheme=theme)
    Visit(page, lab, theme).open("clusters")
    for index in range(4):
        red, green, blue = page.evaluate(
            f"import('/static/js/core/palette.js').then((palette) => palette.color('c{index}'))"
        )
        assert not (green > red + 20 and green > blue + 20), "green"
        assert not (red < blue - 20 and green < red - 60), "purple"
    page.close()


# The fills of the marked bars of a view, in their order, and whether each verdict is marked as wrong.
FILLS = """view => [...view.querySelectorAll(".bars .marked .bar i")].filter((one) => one.checkVisibility())
  .map((one) => one.style.background)"""


@pytest.mark.parametrize(
    ("address", "fills"),
    [
        ("parts?world=faces", ["wrong"]),  # a scrambled face: the capsules find nothing, and the CNN a face
        ("parts?world=shapes&scene=4_0_0_0_0.6", ["accent", "cnn"]),
        ("toy", ["accent", "wrong", "accent", "accent"]),  # the last two: how far the pose moves
        ("attack", ["accent", "wrong"]),
        ("compare", ["accent", "wrong"]),
        ("compare?attack=none", ["accent", "cnn"]),
        ("overlap", ["second", "first", "wrong", "first"]),  # the colors of the two digits
    ],
)
def test_each_network_has_one_color_and_wrong_answers_are_striped(
    visit: Visit, address: str, fills: list[str]
) -> None:
    view = visit.open(address)
    view.locator(".bars .marked:visible").nth(len(fills) - 1).wait_for()
    assert view.evaluate(FILLS) == [f"var(--{name})" for name in fills]
    key = view.locator(".wrong-key:visible").first
    assert key.evaluate("key => getComputedStyle(key, '::before').backgroundImage").startswith("repeating")
    verdicts = view.locator(".verdict:visible").all()[-2:]
    wrong = [verdict.evaluate("one => one.classList.contains('wrong')") for verdict in verdicts]
    assert wrong == [False, "wrong" in fills]

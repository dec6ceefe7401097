"""The network on the front page: live values in every stage, one primary capsule with its field and votes."""

import itertools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.browser import THUMBNAIL, Visit
from torchcaps.lab import schemas
from torchcaps.lab.examples import load_examples
from torchcaps.lab.model_store import load_model_store
from torchcaps.lab.views import draw

pytest_plugins = ["support.browser_fixtures"]

STAGES = ["Image", "Convolution", "Primary capsules", "Votes", "Routing", "Digit capsules", "Decoder"]
AXES = [("x", "width"), ("y", "height")]
COLUMNS = 3  # grids of primary capsules side by side
CELL, GAP = 6, 1  # cells of a grid of primary capsules, and between two grids


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "network")
    page.close()


def place_of(row: int, column: int, kind: int) -> dict[str, float]:
    """The middle of a primary capsule in the picture of its stage, as shares of its size."""
    width = height = COLUMNS * (CELL + GAP) - GAP
    return {
        "x": (kind % COLUMNS * (CELL + GAP) + column + 0.5) / width,
        "y": (kind // COLUMNS * (CELL + GAP) + row + 0.5) / height,
    }


def hover(visit: Visit, row: int, column: int, kind: int) -> dict[str, Any]:
    picture = visit.page.get_by_role("img", name="Lengths of the primary capsules")
    picture.scroll_into_view_if_needed()
    box, at = picture.bounding_box(), place_of(row, column, kind)
    spot = box["x"] + at["x"] * box["width"], box["y"] + at["y"] * box["height"]
    return visit.response_to("capsule", lambda: visit.page.mouse.move(*spot))


def column(view: Any, kind: str) -> list[list[float]]:
    """The numbers of a column of the table of votes, for each digit."""
    texts = view.locator(f".vote-table .{kind} text").all_text_contents()
    rows = [re.sub(r"([+−]) (?=\d)", r" \1", text).replace("−", "-").strip(" %").split() for text in texts]
    return [[float(number) for number in row] for row in rows]


def shown_products(view: Any) -> list[list[float]]:
    return column(view, "terms")


def assert_named(view: Any, row: int, column: int, kind: int) -> None:
    """One capsule has one name, and all pictures show the same one."""
    number = 1 + (row * CELL + column) * 8 + kind
    text = view.inner_text()
    assert f"Primary capsule {number} of 288: type {kind + 1} at row {row + 1}, column {column + 1}" in text
    assert view.get_by_role("slider", name="Primary capsule").input_value() == str(number)
    for part in (
        "double frame: what primary capsule {} sees",
        "of primary capsule {}, one",
        "position of primary capsule {},",
    ):
        assert part.format(number) in text


def test_every_stage_follows_the_drawing(visit: Visit) -> None:
    view = visit.open("draw")
    assert view.locator(".network-strip b").all_inner_texts() == STAGES
    stages = view.locator(".network-strip canvas").all()
    before = [stage.evaluate(THUMBNAIL) for stage in stages]
    visit.response_to("draw", view.get_by_role("button", name="Example of 7").click)
    after = [stage.evaluate(THUMBNAIL) for stage in stages]
    assert len(before) == 6
    assert all(one != two for one, two in zip(before, after, strict=True))


def test_pointing_at_a_capsule_shows_its_field_and_its_votes(visit: Visit) -> None:
    view = visit.open("draw")
    image, crop = view.locator(".network-strip canvas").first, view.locator(".field-crop")
    answers = []
    for place in ((0, 0, 0), (5, 5, 7), (2, 3, 4)):
        fields = image.evaluate(THUMBNAIL), crop.evaluate(THUMBNAIL)
        answer = hover(visit, *place)
        assert (answer["row"], answer["column"], answer["type"]) == place
        assert_named(view, *place)
        assert image.evaluate(THUMBNAIL) != fields[0]
        assert crop.evaluate(THUMBNAIL) != fields[1]
        np.testing.assert_allclose(shown_products(view), np.transpose(answer["products"][:-1]), atol=6e-3)
        # With a calculator: the products add up to the sums, and the softmax of the sums is what is sent.
        sums, percent = (np.array(column(view, kind)).squeeze(1) for kind in ("sums", "shares"))
        np.testing.assert_allclose(np.sum(shown_products(view), 1), sums, atol=1e-6)
        np.testing.assert_allclose(100 * np.exp(sums) / np.exp(sums).sum(), percent, atol=1)
        zero = float(view.locator(".sums .zero").get_attribute("x1"))
        edges = view.locator(".sums .bar").evaluate_all(
            "all => all.map(({ x, width }) => [x, width].map((at) => at.baseVal.value))"
        )
        for value, (left, width) in zip(sums, edges, strict=True):
            assert (left if value >= 0 else left + width) == pytest.approx(zero), "left is below zero"
        answers.append(shown_products(view))
    assert answers[0] != answers[1]
    visit.page.mouse.move(0, 0)
    visit.wait_idle()
    assert shown_products(view) not in answers, "the capsule that sends most is shown again"
    assert visit.errors == []


def test_the_table_follows_the_player(visit: Visit) -> None:
    """Text, titles, products, sums and shares are of one iteration; the capsules are of the last product."""
    answer = visit.response_to("draw", lambda: visit.open("draw"))
    view, capsule = visit.page.locator("#view-draw"), answer["capsule"]
    player, loop = view.get_by_role("slider", name="Routing iteration"), view.locator(".capsule-detail .loop")
    for at, terms in ((2, "iteration 1 + iteration 2"), (1, "iteration 1"), (0, "")):
        assert player.input_value() == str(at)
        text, titles = loop.inner_text(), view.locator(".vote-table figcaption").all_inner_texts()
        assert text.startswith(f"Iteration {at + 1} of 3:")
        drawn = max(at, 1)  # the iteration of the last product, if there is one
        assert f"those of iteration {drawn}" in text
        assert (f"are summed ({terms})" in text) == (at > 0)
        assert f"digit's capsule, iteration {drawn}" in titles
        assert f"products: {terms or 'none yet'}" in titles
        percent = np.array(column(view, "shares")).squeeze(1)
        np.testing.assert_allclose(percent, 100 * np.array(capsule["shares"][at]), atol=0.51)
        if at:
            np.testing.assert_allclose(
                shown_products(view), np.transpose(capsule["products"][:at]), atol=6e-3
            )
        cells = view.locator(".vote-table .cells").nth(1).locator("title").all_text_contents()
        numbers = [float(cell.split("= ")[1].replace("−", "-")) for cell in cells]
        np.testing.assert_allclose(numbers, np.ravel(answer["history"][drawn - 1]), atol=6e-4)
        assert f"In iteration {at + 1} it sends" in view.locator(".capsule-seen p").inner_text()
        player.press("ArrowLeft")
    assert visit.errors == []


def test_what_a_capsule_sends_fits_the_square_of_its_position(visit: Visit) -> None:
    """For 40 digits: what it sends, what the other types at its position send, and the mean of all."""
    visit.open("draw")
    store, examples = load_model_store(), load_examples().digits
    for image in (digit.image for digit in examples if examples.index(digit) % 8 < 4):
        response = draw.recognize(store, schemas.DrawRequest(image=image))
        capsule, best = response.capsule, response.best
        text = visit.page.evaluate(
            """answer => import('/static/js/widgets/capsule_detail.js')
              .then((detail) => detail.describePlace(answer, answer.capsule, 2))""",
            response.model_dump(),
        )
        place = {"row": capsule.row, "column": capsule.column}
        sent = np.array(
            [
                10
                * draw.inspect_capsule(store, schemas.CapsuleRequest(image=image, type=kind, **place)).shares[
                    -1
                ][best]
                for kind in range(8)
            ]
        )
        length = np.array(response.primary)[:, capsule.row, capsule.column]
        rest = np.arange(8) != capsule.type
        said = re.search(
            rf"sends (\d+) % to {best}, (\S+) times an equal share\. The other 7 types at its position "
            r"send (\S+) times on average; a square of the map is the mean of all 8, here (\S+) times\.",
            text,
        )
        expected = [
            10 * sent[capsule.type],
            sent[capsule.type],
            *((sent * length)[part].sum() / length[part].sum() for part in (rest, np.full(8, True))),
        ]
        numbers = [float(number) for number in said.groups()]  # type: ignore[union-attr]
        assert numbers[0] == pytest.approx(expected[0], abs=0.51)
        assert numbers[1:] == pytest.approx(expected[1:], abs=0.06)


def test_the_chosen_capsule_has_another_mark_than_the_answer(visit: Visit) -> None:
    view = visit.open("draw")
    border = view.locator(".field-crop").evaluate("one => getComputedStyle(one).borderTopStyle")
    assert border == "double"
    accents = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let count = 0;
      for (let at = 0; at < data.length; at += 4) count += data[at] > data[at + 2] + 60;
      return count;
    }"""
    for picture in (".network-strip li:nth-child(1)", ".network-strip li:nth-child(3)", ".field"):
        assert view.locator(f"{picture} canvas").evaluate(accents) == 0, picture


def test_couplings_show_the_capsule_that_is_chosen(visit: Visit) -> None:
    view = visit.open("draw")
    first = visit.page.locator("#view-draw .capsule-seen p").inner_text()
    kind = int(re.search(r"type (\d)", first)[1]) - 1  # type: ignore[index]
    heat = view.locator(".maps canvas").first
    heat.scroll_into_view_if_needed()
    box = heat.bounding_box()
    at = box["x"] + box["width"] * 4.5 / 6, box["y"] + box["height"] * 0.5 / 6
    answer = visit.response_to("capsule", lambda: visit.page.mouse.move(*at))
    assert (answer["row"], answer["column"], answer["type"]) == (0, 4, kind)
    assert_named(view, 0, 4, kind)
    visit.page.mouse.move(0, 0)
    visit.wait_idle()
    assert visit.page.locator("#view-draw .capsule-seen p").inner_text() == first


def test_the_slider_chooses_a_capsule_that_stays(visit: Visit) -> None:
    view = visit.open("draw")
    slider = view.get_by_role("slider", name="Primary capsule")
    answer = visit.response_to("capsule", lambda: slider.press("End"))
    assert (answer["row"], answer["column"], answer["type"]) == (5, 5, 7)
    visit.response_to("draw", view.get_by_role("button", name="Example of 5").click)
    assert slider.input_value() == "288"
    visit.page.reload()
    visit.wait_idle()
    view.locator(".capsule-seen p:not(:empty)").wait_for()
    assert_named(view, 5, 5, 7)


@pytest.mark.parametrize(
    ("stage", "view"),
    [("Convolution", "compare"), ("Votes", "votes"), ("Routing", "votes"), ("Decoder", "tweak")],
)
def test_a_click_on_a_stage_opens_its_view(visit: Visit, stage: str, view: str) -> None:
    item = visit.open("draw").locator(".network-strip li").nth(STAGES.index(stage))
    item.locator("canvas").click()
    visit.page.locator(f"#view-{view}").wait_for()


def test_a_click_on_the_image_goes_to_the_pad(visit: Visit) -> None:
    view = visit.open("draw")
    view.locator(".network-strip canvas").first.click()
    assert view.locator("canvas.pad").evaluate("pad => pad === document.activeElement")


def test_a_tap_chooses_a_capsule(browser: Any, lab: str) -> None:
    """There is nothing to point with on a phone."""
    page = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True, reduced_motion="reduce")
    visit = Visit(page, lab, "touch")
    view = visit.open("draw")
    picture = page.get_by_role("img", name="Lengths of the primary capsules")
    picture.scroll_into_view_if_needed()
    box, at = picture.bounding_box(), place_of(1, 4, 6)
    visit.response_to(
        "capsule",
        lambda: page.touchscreen.tap(box["x"] + at["x"] * box["width"], box["y"] + at["y"] * box["height"]),
    )
    assert_named(view, 1, 4, 6)
    assert view.is_visible()
    box = view.locator(".vote-box").bounding_box()
    figures = [figure.bounding_box() for figure in view.locator(".vote-table figure:visible").all()]
    heights = {(figure["y"], figure["height"]) for figure in figures}
    assert len(heights) == 1, "one row for each digit, across vote, capsule and products"
    edges = view.locator(".vote-table").evaluate(
        """table => [...table.querySelectorAll(".terms text, .sums text, .shares text")].filter((text) => {
          const [inner, outer] = [text, text.closest("figure")].map((one) => one.getBoundingClientRect());
          return inner.left < outer.left - 1;
        }).map((text) => text.textContent)"""
    )
    assert edges == [], "no number is cut off"
    for one, two in itertools.combinations(figures, 2):
        apart = (max(one[at], two[at]) - min(one[at] + one[size], two[at] + two[size]) for at, size in AXES)
        assert max(apart) >= 0, "nothing lies over anything else"
    assert max(figure["x"] + figure["width"] for figure in figures) <= box["x"] + box["width"] + 1
    texts = view.locator(".vote-table figcaption, .vote-table .color-bar span").evaluate_all(
        """all => all.filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1)
          .map((one) => one.textContent)"""
    )
    assert texts == [], "no text is wider than its column"
    loop = view.locator(".capsule-detail .loop").bounding_box()
    assert loop["width"] == pytest.approx(view.locator(".capsule-detail").bounding_box()["width"], abs=1)
    page.close()


def test_the_network_and_one_capsule_are_in_sight(visit: Visit) -> None:
    view = visit.open("draw")
    table = view.locator(".vote-table").bounding_box()
    assert table["y"] + table["height"] <= 900


@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_arrows_lead_from_each_stage_to_the_next(browser: Any, lab: str, width: int) -> None:
    """In one row, or on a phone in one column: no stage begins a new row without an arrow to it."""
    page = browser.new_page(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    view = Visit(page, lab, "flow").open("draw")
    stages = view.locator(".network-strip li")
    assert stages.count() == len(STAGES)
    along, across = ("x", "y") if width > 900 else ("y", "x")
    size = {"x": "width", "y": "height"}
    pictures = [stage.locator("canvas, svg").first.bounding_box() for stage in stages.all()]
    for before, stage, picture in zip(pictures, stages.all()[1:], pictures[1:], strict=False):
        arrow = stage.locator(".flow").bounding_box()
        assert before[along] + before[size[along]] <= arrow[along] + 1
        assert arrow[along] + arrow[size[along]] <= picture[along] + 1
        middle = arrow[across] + arrow[size[across]] / 2
        for box in (before, picture):
            assert box[across] <= middle <= box[across] + box[size[across]], "the arrow points at the picture"
    assert stages.first.locator(".flow").count() == 0
    for stage in stages.all():  # nothing lies over its neighbor
        inner = stage.locator("b, .stage-text").evaluate_all(
            "all => all.map((one) => one.scrollWidth - one.clientWidth)"
        )
        assert max(inner) <= 1, stage.inner_text()
    page.close()

"""Votes in the browser: pictures that show what routing does, and sentences computed from the answers."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.browser import Visit
from torchcaps.lab import schemas
from torchcaps.lab.examples import load_examples
from torchcaps.lab.model_store import load_model_store
from torchcaps.lab.views import votes

pytest_plugins = ["support.browser_fixtures"]

COUNT = 40
LITTLE = 1.25


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "votes")
    page.close()


def images() -> list[list[list[float]]]:
    """Four digits of each class."""
    examples = load_examples().digits
    return [digit.image for digit in examples if examples.index(digit) % 8 < 4]


def answer_of(response: dict[str, Any]) -> int:
    return int(np.argmax(response["iterations"][-1]["activation"]))


def common_answer(twins: list[dict[str, Any]]) -> int:
    """The answer of most networks, of equally many the first."""
    answers = list(map(answer_of, twins))
    return max(answers, key=answers.count)


def top_tenth(step: dict[str, Any], row: int) -> float:
    order = np.argsort(-np.array(step["agreements"][row]), kind="stable")
    return float(10 * np.array(step["couplings"][row])[order[: len(order) // 10]].mean())


def dots(strip: Any) -> np.ndarray:
    return np.array(
        strip.locator("circle").evaluate_all(
            "all => all.map(({ cx, cy }) => [cx, cy].map((at) => at.baseVal.value))"
        )
    )


def test_parts_that_agree_send_more_and_the_picture_shows_it(visit: Visit) -> None:
    """The digit with which the page opens: dots start at one height, and those that agree rise.

    In the small network, which comes first, the votes for the answer agree clearly better than the others.
    """
    visit.open("draw")
    opened = visit.response_to("votes", lambda: visit.open("votes"))
    view = visit.page.locator("#view-votes")
    slider = view.get_by_role("slider", name="Iteration", exact=True)
    rows = view.locator(".strip .name").all_text_contents()
    assert len(rows) == 5 * 3
    assert rows[:3] == rows[3:6] == [str(digit) for digit in opened["shown"]], "the dynamic twin, twice"
    levels = [strip.locator(".levels text").all_text_contents() for strip in view.locator(".strip").all()]
    assert all(level == ["0 ×", "1 ×", "10 ×"] for level in levels), "one vertical axis in all pictures"
    assert "Agreement with dynamic routing" in view.inner_text()
    better = view.locator(".strips", has_text="farther right = agrees better")
    assert better.count() == 5, "beside each picture"

    def means() -> list[float]:
        texts = view.locator(".mean text").all_text_contents()[:3]
        return [float(text.removeprefix("mean ").replace("−", "-")) for text in texts]

    answers = {"Small network": opened}
    for name in ("Small network", "Network of Draw"):
        if name not in answers:
            answers[name] = visit.response_to("votes", view.locator(".choices").get_by_text(name).click)
        answer = answers[name]
        best = int(np.argmax(answer["iterations"][-1]["activation"]))
        strip = view.locator(".strip.best").first
        assert strip.locator(".name").text_content() == str(best)
        slider.press("Home")
        assert np.ptp(dots(strip)[:, 1]) < 1, "equal shares"
        slider.press("End")
        x, y = dots(strip).T
        assert np.ptp(y) > 20, "pixels"
        others = np.concatenate([dots(each)[:, 0] for each in view.locator(".strip").all()[:3]])
        if name == "Small network":
            assert np.median(x) > np.quantile(others, 0.75), "the headline is true of the first picture"
        else:
            assert np.corrcoef(x, -y)[0, 1] > 0.8
        expected = [answer["iterations"][-1]["agreement"][digit] for digit in answer["shown"]]
        assert means() == pytest.approx(expected, abs=0.006)
        assert means()[answer["shown"].index(best)] == max(means())
        shares = np.array(answer["iterations"][-1]["share"]) * 10
        got = view.get_by_role("list", name="How many times an equal share each digit gets")
        assert [float(text) for text in got.locator(".value").all_inner_texts()] == pytest.approx(
            shares.tolist(), abs=0.006
        )
        assert ("routes little" in view.inner_text()) == (name == "Network of Draw")
        assert ("Its twins are below: the same network" in view.inner_text()) == (name == "Small network")
    small, large = (10 * max(answers[name]["iterations"][-1]["share"]) for name in answers)
    assert small > 2 * large
    assert visit.errors == []


@pytest.mark.parametrize("routing", ["dynamic", "draw"])
def test_what_routing_has_done_is_said_with_its_numbers(visit: Visit, routing: Any) -> None:
    """For 40 digits: "… now gets …", "The tenth of the parts …", "Its activation is … above …"."""
    visit.open("votes")
    store, little = load_model_store(), 0
    for image in images():
        response = votes.route(store, schemas.VotesRequest(image=image, routing=routing)).model_dump()
        text = visit.page.evaluate(
            """answer => import('/static/js/views/votes.js')
              .then((view) => view.describeChange(answer, answer.iterations.length - 1))""",
            response,
        )
        first, last = response["iterations"][0], response["iterations"][-1]
        best = int(np.argmax(last["activation"]))
        share = 10 * last["share"][best]
        gets = re.match(rf"{best} now gets ([\d.]+) times an equal share\.", text)
        assert float(gets[1]) == pytest.approx(share, abs=0.006)  # type: ignore[index]
        said = re.search(r"agrees best with it sends it ([\d.]+) times", text)
        assert bool(said) == (share < LITTLE)
        if said:
            top = top_tenth(last, response["shown"].index(best))
            assert float(said[1]) == pytest.approx(top, abs=0.06)
            assert top > 1.2
        numbers = re.findall(r"−?\d\.\d\d", text.split("Its activation")[1])
        leads = [
            step["activation"][best] - max(np.delete(step["activation"], best)) for step in (last, first)
        ]
        rest = [np.mean(np.delete(step["activation"], best)) for step in (first, last)]
        said = [float(number.replace("−", "-")) for number in numbers]
        assert said == pytest.approx([*leads, *rest], abs=0.006)
        little += share < LITTLE
    assert little == (COUNT if routing == "draw" else 0), "the network of Draw routes little"


def test_it_is_said_how_many_parts_have_the_answer_as_their_favorite(visit: Visit) -> None:
    """For 40 digits, four routings: the median, the favorites, how much these count, what the digit gets."""
    visit.open("votes")
    store, few = load_model_store(), 0
    for image in images():
        twins = votes.compare(store, schemas.DrawRequest(image=image)).model_dump()["twins"]
        texts = visit.page.evaluate(
            """twins => import('/static/js/views/twins.js').then((view) =>
              twins.map((twin) => twin.iterations.map((_, at) => view.describeParts(twin, at))))""",
            twins,
        )
        for twin, (first, *_, text) in zip(twins, texts, strict=True):
            assert first == "Iteration 1: every part sends the same share to all digits."
            routed = votes.route_image(store, votes.TWINS[twin["routing"]], image)
            step = routed.steps[-1]
            coupling, best = votes.coupling_of(step).numpy(), int(step.activation.argmax())
            median = float(votes.coupling_of(step).amax(1).median())
            own, counts = coupling.argmax(1) == best, routed.parts().numpy()
            expected = [100 * median, best, own.sum(), len(own)]
            if twin["routing"] != "dynamic":
                expected.append(100 * counts[own].sum() / counts.sum())
            expected.append(10 * (counts @ coupling[:, best]) / counts.sum())
            numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]
            assert ("of all activation" in text) == (twin["routing"] != "dynamic")
            assert numbers == pytest.approx(expected, abs=0.7), text
            assert numbers[-1] == pytest.approx(expected[-1], abs=0.06)
            few += own.sum() < len(own) / 2
    assert few > COUNT, "which is why an answer gets less than its parts send to their favorites"


def test_the_area_of_a_dot_is_the_activation_of_its_part(visit: Visit) -> None:
    visit.open("draw")
    twins = visit.response_to("twins", lambda: visit.open("votes"))["twins"]
    for card, twin in zip(visit.page.locator("#view-votes .twin").all(), twins, strict=True):
        radii = (
            card.locator(".strip")
            .first.locator("circle")
            .evaluate_all("all => all.map(({ r }) => r.baseVal.value)")
        )
        areas, parts = np.square(radii), np.array(twin["parts"])
        np.testing.assert_allclose(areas / areas.max(), parts / parts.max(), atol=0.01)
        assert ("Area of a dot" in card.inner_text()) == (twin["routing"] != "dynamic")


def test_twins_show_their_answers_on_the_same_axes(visit: Visit) -> None:
    visit.open("draw")
    twins = visit.response_to("twins", lambda: visit.open("votes"))["twins"]
    view = visit.page.locator("#view-votes")
    cards = view.locator(".twin")
    assert cards.count() == 4
    rows = [card.locator(".strips .name").all_text_contents() for card in cards.all()]
    assert [[int(digit) for digit in row] for row in rows] == [twin["shown"] for twin in twins]
    levels = [card.locator(".levels").first.locator("text").all_text_contents() for card in cards.all()]
    assert all(level == levels[0] for level in levels), "one vertical axis"
    head, slider = view.locator(".twins-card"), view.get_by_role("slider", name="Iteration of the twins")
    winners = set(map(answer_of, twins))
    expected = f"All four networks agree on {winners.pop()}." if len(winners) == 1 else "The networks differ"
    assert expected in head.locator(".words").inner_text()
    for at, key in ((0, "Home"), (2, "End")):
        slider.press(key)
        for card, twin in zip(cards.all(), twins, strict=True):
            step = twin["iterations"][at]
            assert twin["measure"] in card.locator(".strips .axis-title").text_content()
            axis = card.locator('.strips .grid text[text-anchor="middle"]').all_text_contents()
            numbers = [float(text.replace("−", "-")) for text in axis]
            assert len(numbers) >= 3
            assert numbers == sorted(numbers)
            assert card.locator(".verdict .big").inner_text() == str(int(np.argmax(step["activation"])))
            words, (second, first) = (
                card.locator(".verdict .words").inner_text(),
                sorted(step["activation"])[-2:],
            )
            said = [float(number.replace("−", "-")) for number in re.findall(r"−?\d\.\d\d", words)]
            assert said == pytest.approx([first, first - second], abs=0.006)
        gets = [10 * twin["iterations"][at]["share"][common_answer(twins)] for twin in twins]
        shown = re.findall(r"([\d.]+) with", head.locator(".readout").inner_text())
        assert [float(value) for value in shown] == pytest.approx(gets, abs=0.06)
    dashes = "all => all.map((line) => [line.getAttribute('class'), getComputedStyle(line).strokeDasharray])"
    lines, keys = (
        head.locator(f"{part} polyline").evaluate_all(dashes) for part in (".line-chart", ".line-key")
    )
    assert lines == keys, "the legend shows the lines of the chart"
    assert len({dash for _, dash in lines}) == 4
    assert visit.errors == []


def test_the_lesson_of_the_twins_holds(visit: Visit) -> None:
    """For 40 digits: whether all give the same answer, and what it gets in the end."""
    visit.open("votes")
    store, same = load_model_store(), 0
    for image in images():
        twins = votes.compare(store, schemas.DrawRequest(image=image)).model_dump()["twins"]
        text = visit.page.evaluate(
            "twins => import('/static/js/views/twins.js').then((view) => view.teach(twins))", twins
        )
        digit, answers = common_answer(twins), list(map(answer_of, twins))
        gets = [10 * twin["iterations"][-1]["share"][digit] for twin in twins]
        assert ("four routings give the same answer" in text) == (len(set(answers)) == 1)
        assert ("routing can change the answer" in text) == (len(set(answers)) > 1)
        if len(set(answers)) > 1:
            assert f"Here {answers.count(digit)} of the four networks say {digit}." in text
        every = len(set(answers)) == 1 and min(gets) > 1
        assert (f"send {digit} more in the end, but not equally much" in text) == every
        assert not every or max(gets) > 1.2 * min(gets)
        assert all(10 * twin["iterations"][0]["share"][digit] == pytest.approx(1, abs=1e-3) for twin in twins)
        same += len(set(answers)) == 1
    assert same > COUNT / 2


def test_it_is_said_why_a_digit_that_lies_farther_right_loses(visit: Visit) -> None:
    """Exactly the digits whose mean is above that of the answer are named; only EM and Heinsen have such."""
    visit.open("votes")
    store, named = load_model_store(), 0
    for image in images()[::4]:
        for twin in votes.compare(store, schemas.DrawRequest(image=image)).model_dump()["twins"]:
            for step in twin["iterations"]:
                text = visit.page.evaluate(
                    """([twin, step]) => import('/static/js/widgets/strips.js')
                      .then((strips) => strips.explainMeans(twin, step))""",
                    [twin, step],
                )
                answer = int(np.argmax(step["activation"]))
                ahead = [
                    each for each in twin["shown"] if step["agreement"][each] > step["agreement"][answer]
                ]
                said = re.search(rf", so (.*) can lie farther right than {answer}", text)
                assert (said[1] if said else "") == " and ".join(map(str, ahead))
                named += bool(ahead)
    assert named > 3, "it happens"


def test_a_digit_and_its_text_are_on_one_line_on_a_phone(browser: Any, lab: str) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    view = Visit(page, lab, "phone").open("votes")
    for verdict in view.locator(".verdict").all():
        big, words = (verdict.locator(part).bounding_box() for part in (".big", ".words"))
        assert words["x"] >= big["x"] + big["width"]
        assert words["y"] < big["y"] + big["height"]
    last, sign = view.locator(".lead").evaluate(
        """lead => {
          const range = document.createRange();
          range.selectNodeContents(lead.querySelector("h1"));
          const line = [...range.getClientRects()].at(-1);
          const sign = lead.querySelector(".words-button").getBoundingClientRect();
          return [[line.right, line.top, line.bottom], [sign.left, sign.top + sign.height / 2]];
        }"""
    )
    assert 0 <= sign[0] - last[0] < 20, "the sign stands beside the last word of the title"
    assert last[1] <= sign[1] <= last[2]
    page.close()


def test_the_sizes_of_the_networks_are_named(visit: Visit) -> None:
    view = visit.open("votes")
    models = visit.page.evaluate("fetch('api/status').then((answer) => answer.json())")["models"]
    sizes = {each["id"]: each["num_params"] for each in models}
    twins = [size for name, size in sizes.items() if "-twin-" in name]
    heading = view.locator(".twins-head h2").inner_text()
    assert f"({min(twins) / 1000:.3g}K to {max(twins) / 1000:.3g}K parameters)" in heading
    assert max(twins) < sizes["capsnet_small-mnist"] / 2, "small beside the network of Draw"

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

NAMES = {"Dynamic": "dynamic", "EM": "em", "k-means": "kmeans", "Heinsen (2019)": "heinsen"}
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


def top_tenth(step: dict[str, Any]) -> float:
    order = np.argsort(-np.array(step["agreements"][0]), kind="stable")
    return float(10 * np.array(step["couplings"][0])[order[: len(order) // 10]].mean())


def dots(strip: Any) -> np.ndarray:
    return np.array(
        strip.locator("circle").evaluate_all(
            "all => all.map(({ cx, cy }) => [cx, cy].map((at) => at.baseVal.value))"
        )
    )


def test_parts_that_agree_send_more_and_the_picture_shows_it(visit: Visit) -> None:
    """The digit with which the page opens: dots start at one height, and those that agree rise."""
    visit.open("draw")
    answer = visit.response_to("votes", lambda: visit.open("votes"))
    view = visit.page.locator("#view-votes")
    strip, slider = (
        view.locator(".strip.best").first,
        view.get_by_role("slider", name="Iteration", exact=True),
    )
    slider.press("Home")
    assert np.ptp(dots(strip)[:, 1]) < 1, "equal shares"
    slider.press("End")
    x, y = dots(strip).T
    assert np.ptp(y) > 40, "pixels"
    assert np.corrcoef(x, -y)[0, 1] > 0.8
    level = strip.locator(".levels text").all_text_contents()
    most = 10 * np.max([step["couplings"] for step in answer["iterations"]])
    assert [float(text.strip(" ×")) for text in level] == pytest.approx([0, 1, most], abs=0.06)
    shares = np.array(answer["iterations"][-1]["share"]) * 10
    weights = view.get_by_role("list", name="How many times an equal share each digit gets")
    assert [float(text) for text in weights.locator(".value").all_inner_texts()] == pytest.approx(
        shares.tolist(), abs=0.006
    )
    first, last = (answer["iterations"][at]["activation"][answer["shown"][0]] for at in (0, -1))
    assert last > first + 0.3, "what routing does is seen in the activation"
    assert visit.errors == []


def test_what_routing_has_done_is_said_with_its_numbers(visit: Visit) -> None:
    """For 40 digits: "The tenth of the parts …", "Most parts change little …", "Its activation has …"."""
    visit.open("votes")
    store, little = load_model_store(), 0
    for image in images():
        response = votes.route(store, schemas.VotesRequest(image=image)).model_dump()
        text = visit.page.evaluate(
            """answer => import('/static/js/views/votes.js')
              .then((view) => view.describeChange(answer, answer.iterations.length - 1))""",
            response,
        )
        first, last, best = response["iterations"][0], response["iterations"][-1], response["shown"][0]
        share = 10 * last["share"][best]
        said = re.search(rf"agrees best with {best} now sends it ([\d.]+) times", text)
        assert float(said[1]) == pytest.approx(top_tenth(last), abs=0.06)  # type: ignore[index]
        assert top_tenth(last) > 1.2
        changes = np.abs(np.log(10 * np.array(last["couplings"][0])))
        assert np.mean(changes < np.log(LITTLE)) > 0.5, "most parts"
        little += f"Most parts change little: together they send it {share:.2f} times an equal share." in text
        assert share < LITTLE
        start, now = first["activation"][best], last["activation"][best]
        assert f"activation has risen from {start:.2f} to {now:.2f}." in text
        assert f"scalar product has risen from {first['agreement'][best]:.3g} to" in text
    assert little == COUNT


def test_twins_show_the_same_digits_on_the_same_axes(visit: Visit) -> None:
    visit.open("draw")
    twins = visit.response_to("twins", lambda: visit.open("votes"))["twins"]
    view = visit.page.locator("#view-votes")
    cards = view.locator(".twin")
    assert cards.count() == 4
    rows = [card.locator(".strips .name").all_text_contents() for card in cards.all()]
    assert all(row == rows[0] for row in rows), "the same rivals"
    assert [int(digit) for digit in rows[0]] == twins[0]["shown"]
    levels = [card.locator(".levels").first.locator("text").all_text_contents() for card in cards.all()]
    assert all(level == levels[0] for level in levels), "one vertical axis"
    scales = {
        twin["routing"]: card.locator('.strips .grid text[text-anchor="middle"]').all_text_contents()
        for card, twin in zip(cards.all(), twins, strict=True)
    }
    assert scales["em"] == scales["heinsen"], "one axis for the same measure"
    head, slider = view.locator(".twins-card"), view.get_by_role("slider", name="Iteration of the twins")
    winners = {int(np.argmax(twin["iterations"][-1]["activation"])) for twin in twins}
    expected = f"All four twins agree on {winners.pop()}." if len(winners) == 1 else "The twins differ"
    assert expected in head.locator(".words").inner_text()
    for at, key in ((0, "Home"), (2, "End")):
        slider.press(key)
        for card, twin in zip(cards.all(), twins, strict=True):
            step = twin["iterations"][at]
            assert twin["measure"] in card.locator(".strips .axis-title").text_content()
            assert card.locator(".verdict .big").inner_text() == str(int(np.argmax(step["activation"])))
            words = card.locator(".verdict .words").inner_text()
            assert words.endswith(f"a typical part sends {round(100 * step['typical'])} % to one digit")
        gets = [10 * twin["iterations"][at]["share"][twins[0]["shown"][0]] for twin in twins]
        shown = re.findall(r"([\d.]+) with", head.locator(".readout").inner_text())
        assert [float(value) for value in shown] == pytest.approx(gets, abs=0.06)
    assert visit.errors == []


def test_the_conclusion_about_the_twins_holds(visit: Visit) -> None:
    """For 40 digits, from the couplings themselves: what the answer gets, and what a typical part sends."""
    visit.open("votes")
    store = load_model_store()
    least = []
    for image in images():
        response = votes.compare(store, schemas.DrawRequest(image=image)).model_dump()
        text = visit.page.evaluate(
            "twins => import('/static/js/views/twins.js').then((view) => view.conclude(twins))",
            response["twins"],
        )
        routed = {name: votes.route_image(store, choice, image) for name, choice in votes.TWINS.items()}
        answers = [int(each.steps[-1].activation[0, 0].argmax()) for each in routed.values()]
        digit = int(re.search(r"In the end, (\d) gets", text)[1])  # type: ignore[index]
        assert answers.count(digit) == max(map(answers.count, answers))
        shares, typical = text.split("A typical part")
        expected = {
            name: (
                10 * float(each.weight(each.steps[-1])[:, digit].sum() / each.weight(each.steps[-1]).sum()),
                100 * float(votes.coupling_of(each.steps[-1]).amax(1).median()),
            )
            for name, each in routed.items()
        }
        for column, (part, pattern, off) in enumerate(
            [
                (shares, r"([\d.]+) with ([\w-]+(?: \(2019\))?)", 0.06),
                (typical, r"(\d+) % with ([\w-]+(?: \(2019\))?)", 0.6),
            ]
        ):
            pairs = [(NAMES[name], float(value)) for value, name in re.findall(pattern, part)]
            assert dict(pairs) == pytest.approx(
                {name: values[column] for name, values in expected.items()}, abs=off
            )
            assert [value for _, value in pairs] == sorted((value for _, value in pairs), reverse=True)
        least.append(pairs[-1][0])
    assert least == ["kmeans"] * COUNT, "with k-means, a typical part spreads its weight most"


def test_the_lesson_of_the_twins_holds(visit: Visit) -> None:
    """For 40 digits: whether all give the same answer, and what it gets in the end."""
    visit.open("votes")
    store, same = load_model_store(), 0
    for image in images():
        twins = votes.compare(store, schemas.DrawRequest(image=image)).model_dump()["twins"]
        text = visit.page.evaluate(
            "twins => import('/static/js/views/twins.js').then((view) => view.teach(twins))", twins
        )
        digit = twins[0]["shown"][0]
        answers = [int(np.argmax(twin["iterations"][-1]["activation"])) for twin in twins]
        gets = [10 * twin["iterations"][-1]["share"][digit] for twin in twins]
        assert ("four routings give the same answer" in text) == (len(set(answers)) == 1)
        assert ("routing can change the answer" in text) == (len(set(answers)) > 1)
        if len(set(answers)) > 1:
            assert f"Here {answers.count(digit)} of the four networks say {digit}" in text
        assert ("send more" in text) == (len(set(answers)) == 1 and min(gets) > 1)
        low, high = re.search(r"([\d.]+) to ([\d.]+) times", text).groups()  # type: ignore[union-attr]
        assert [float(low), float(high)] == pytest.approx([min(gets), max(gets)], abs=0.006)
        assert all(10 * twin["iterations"][0]["share"][digit] == pytest.approx(1, abs=1e-3) for twin in twins)
        same += len(set(answers)) == 1
    assert same > COUNT / 2


def test_the_means_of_log_densities_are_explained(visit: Visit) -> None:
    """Exactly the digits whose mean is above that of the answer are named, and only for log densities."""
    visit.open("votes")
    store, named = load_model_store(), 0
    for image in images()[::4]:
        for twin in votes.compare(store, schemas.DrawRequest(image=image)).model_dump()["twins"]:
            step = twin["iterations"][-1]
            text = visit.page.evaluate(
                """([twin, step]) => import('/static/js/widgets/strips.js')
                  .then((strips) => strips.explainMeans(twin, step))""",
                [twin, step],
            )
            if twin["measure"] != "log density":
                assert text == ""
                continue
            answer = int(np.argmax(step["activation"]))
            ahead = [each for each in twin["shown"] if step["agreement"][each] > step["agreement"][answer]]
            said = re.search(rf"So (.*) can lie farther right than {answer}", text)
            assert (said[1] if said else "") == " and ".join(map(str, ahead))
            named += bool(ahead)
    assert named > 3, "it happens"


def test_the_panel_names_its_network(visit: Visit) -> None:
    view = visit.open("votes")
    models = visit.page.evaluate("fetch('api/status').then((answer) => answer.json())")["models"]
    sizes = {each["id"]: each["num_params"] for each in models}
    for name, words in (
        ("EM", "a matrix capsule network"),
        ("Heinsen (2019)", "one of the four networks below"),
        ("Dynamic", "the network of Draw"),
    ):
        answer = visit.response_to(
            "votes", view.get_by_role("radio", name=name).or_(view.get_by_role("button", name=name)).click
        )
        size = sizes[f"{answer['model']}-{answer['data']}"]
        text = view.locator(".which").inner_text()
        assert words in text
        assert f"{size / 1000:.3g}K weights" in text
    twins = [size for name, size in sizes.items() if "-twin-" in name]
    heading = view.locator(".twins-head h2").inner_text()
    assert f"({min(twins) / 1000:.3g}K to {max(twins) / 1000:.3g}K weights)" in heading
    assert max(twins) < sizes["capsnet_small-mnist"], "smaller than the network of Draw"

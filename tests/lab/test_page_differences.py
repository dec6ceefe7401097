"""Views open with an input on which the networks differ, and name the outcome over many inputs."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.browser import THUMBNAIL, Visit, serve
from torchcaps.lab.model_store import load_model_store

# The middles of 36 × 36 squares.
PIXELS = """canvas => {
  const small = new OffscreenCanvas(36, 36).getContext("2d");
  small.imageSmoothingEnabled = false;
  small.drawImage(canvas, 0, 0, 36, 36);
  return Array.from(small.getImageData(0, 0, 36, 36).data);
}"""

pytest_plugins = ["support.browser_fixtures"]


@pytest.fixture(scope="module")
def lab() -> Iterator[str]:
    """The lab with the test errors of its networks."""
    with serve(load_model_store()) as url:
        yield url


@pytest.fixture
def visit(browser: Any, lab: str) -> Iterator[Visit]:
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    yield Visit(page, lab, "differences")
    page.close()


def shown_counts(view: Any) -> list[int]:
    """The numbers of the sentence, sorted; ε is left out."""
    view.locator(".how-often:not(:empty)").wait_for()
    return sorted(map(int, re.findall(r"(?<![.\d])\d+(?!\.?\d)", view.locator(".how-often").inner_text())))


def counted(visit: Visit, *path: str) -> list[int]:
    counts = visit.page.evaluate("fetch('api/differences').then((answer) => answer.json())")
    for name in path:
        counts = counts[name]
    return sorted(counts.values())


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("overlap", ["overlap"]),
        ("toy", ["toy"]),
        ("attack", ["attack", "fgsm"]),
        ("attack?method=pgd", ["attack", "pgd"]),
        ("compare", ["compare", "fgsm"]),
        ("compare?attack=pgd", ["compare", "pgd"]),
    ],
)
def test_the_outcome_over_many_inputs_is_named(visit: Visit, name: str, path: list[str]) -> None:
    view = visit.open(name)
    counts = counted(visit, *path)
    if name == "overlap":  # also on how many pairs one network alone is right
        outcomes = visit.page.evaluate("fetch('api/differences').then((answer) => answer.json())")["overlap"]
        counts = sorted([*counts, outcomes["capsules"] + outcomes["cnn"]])
    assert shown_counts(view) == counts
    assert visit.errors == []


@pytest.mark.parametrize("name", ["overlap", "toy", "attack", "compare"])
def test_a_view_opens_with_an_input_on_which_the_networks_differ(visit: Visit, name: str) -> None:
    answer = visit.response_to(name, lambda: visit.open(name))
    view = visit.page.locator(f"#view-{name}")
    view.get_by_text("Here they differ; the view opens with such an example.").wait_for()
    verdicts = view.locator(".verdict:visible").all_inner_texts()[-2:]
    if name in ("overlap", "toy"):
        wrong = ["correct" not in text or "one of two" in text for text in verdicts]
        assert sorted(wrong) == [False, True]
    elif name == "attack":
        at = answer["epsilons"].index(pytest.approx(float(view.get_by_role("slider").input_value())))
        changed = [answer[key]["after"][at] != answer[key]["before"] for key in ("capsules", "cnn")]
        assert sorted(changed) == [False, True], "at the ε that is chosen first"
        assert ["→" in text for text in verdicts] == changed
    else:
        assert sorted("→" in text for text in verdicts) == [False, True]


def test_the_sentence_follows_the_input(visit: Visit) -> None:
    view = visit.open("overlap")
    for _ in range(5):
        visit.response_to("overlap", view.get_by_role("button", name="New pair").click)
        right = [
            "both correct" in text or "class count" in text
            for text in view.locator(".verdict").all_inner_texts()
        ]
        differ = (
            "Here they differ; the view opens with such an example."
            in view.locator(".how-often").inner_text()
        )
        assert differ == (right[0] != right[1])


def test_compare_names_no_outcome_that_was_not_measured(visit: Visit) -> None:
    view = visit.open("compare")
    shown_counts(view)
    slider = view.get_by_role("slider", name="largest change of a pixel")
    visit.response_to("compare", lambda: slider.press("End"))
    assert view.locator(".how-often").inner_text() == ""


def test_attack_takes_what_was_drawn(visit: Visit) -> None:
    """The test digit stands in for a drawing only as long as nobody drew or chose one."""
    view = visit.open("attack")
    assert (
        view.get_by_role("group", name="Digits of the test set").locator("[aria-pressed=true]").count() == 1
    )
    visit.response_to("draw", visit.open("draw").get_by_role("button", name="Example of 7").click)
    answer = visit.response_to("attack", visit.page.get_by_role("tab", name="Attack").click)
    assert answer["capsules"]["before"] == 7
    assert view.get_by_role("button", name="Your drawing").get_attribute("aria-pressed") == "true"
    answer = visit.response_to("attack", view.get_by_role("button", name="Example of 4").click)
    assert answer["capsules"]["before"] == 4
    visit.page.reload()
    visit.wait_idle()
    assert view.get_by_role("button", name="Example of 4").get_attribute("aria-pressed") == "true"
    assert visit.errors == []


def test_the_picture_that_both_networks_see_is_shown(visit: Visit) -> None:
    sent: list[Any] = []
    visit.page.on(
        "request", lambda request: request.url.endswith("/overlap") and sent.append(request.post_data_json)
    )
    view = visit.open("overlap")
    seen = view.get_by_role("img", name="What the networks see")
    pixels = np.array(seen.evaluate(PIXELS)).reshape(36, 36, 4)[..., 0]
    ink = (255 - pixels) / (255 - pixels.min())
    assert np.abs(ink - np.array(sent[-1]["image"])).max() < 0.1
    places = view.get_by_role("img", name="Which digit each place sends more to")
    before = places.evaluate(THUMBNAIL)
    answer = visit.response_to("overlap", view.get_by_role("button", name="3 and 0").click)
    assert places.evaluate(THUMBNAIL) != before
    picture, frame = seen.bounding_box(), view.locator(".map-frame").bounding_box()
    centers, pixel = answer["capsules"]["field_centers"], picture["width"] / 36
    assert frame["width"] == pytest.approx(10 * centers["step"] * pixel, abs=2), "the squares of the map"
    middle = (centers["first"] + 4.5 * centers["step"] + 0.5) * pixel
    for side, length in (("x", "width"), ("y", "height")):
        assert frame[side] + frame[length] / 2 == pytest.approx(picture[side] + middle, abs=2)


@pytest.mark.parametrize("world", ["shapes", "faces"])
def test_the_cards_say_on_which_scenes_their_errors_were_measured(visit: Visit, world: str) -> None:
    view = visit.open(f"parts?world={world}")
    models = visit.page.evaluate("fetch('api/status').then((answer) => answer.json())")["models"]
    for model in ("parts_capsnet", "parts_cnn"):
        tested = next(each for each in models if each["id"] == f"{model}-{world}")["tested"]
        card = view.locator("section:visible", has_text=f"{model}-{world}").last
        (low, high), far = tested["scale"], tested["offset"][1]
        assert (
            f"one whole per picture: size {low:.2f} to {high:.2f}, at most {far:.1f} off" in card.inner_text()
        )
        differ = len({str(each["tested"]["scale"]) for each in models if each["data"] == world}) > 1
        assert ("errors cannot be compared" in card.inner_text()) == differ


@pytest.mark.parametrize(
    ("capsules", "cnn", "words"),
    [(10, 9, "equally often"), (30, 4, "The capsules are"), (4, 30, "The CNN is")],
)
def test_which_network_is_right_more_often(visit: Visit, capsules: int, cnn: int, words: str) -> None:
    """A difference below two standard errors counts as none."""
    view = visit.open("overlap")
    outcomes = {"count": 200, "both": 150, "capsules": capsules, "cnn": cnn, "neither": 50 - capsules - cnn}
    text = visit.page.evaluate(
        "outcomes => import('/static/js/views/overlap.js').then((view) => view.compareOutcomes(outcomes))",
        outcomes,
    )
    assert words in text
    assert {str(150 + capsules), str(150 + cnn)} < set(re.findall(r"\d+", text))
    assert view.get_by_text("also draw each digit").count() == 1


def test_an_answer_that_is_none_of_the_two_digits_has_no_color_of_theirs(visit: Visit) -> None:
    answer = visit.response_to("overlap", lambda: visit.open("overlap"))
    view = visit.page.locator("#view-overlap")
    labels = {
        int(text)
        for text in re.findall(
            r"\d",
            view.locator(".digit-choice [aria-pressed=true]").evaluate_all(
                "all => all.map((one) => one.getAttribute('aria-label') ?? one.textContent).join(' ')"
            ),
        )
    }
    bars = view.get_by_role("list", name="Scores of the convolutional network")
    fills = bars.locator("li").evaluate_all("all => all.map((one) => one.innerHTML)")
    wrong = set(answer["cnn"]["best"]) - labels
    assert len(wrong) == 1
    assert "var(--ink)" in fills[wrong.pop()]
    keys = view.locator(".miss-key")
    assert [key.is_visible() for key in keys.all()] == [False, True], "only the CNN is wrong here"
    ink = "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
    swatch = keys.last.evaluate("key => getComputedStyle(key, '::before').borderTopColor")
    red, green, blue = (int(visit.page.evaluate(ink)[at : at + 2], 16) for at in (1, 3, 5))
    assert swatch == f"rgb({red}, {green}, {blue})", "the color of the bar"

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
        ("compare?attack=fgsm", ["compare", "fgsm"]),
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


@pytest.mark.parametrize("method", ["fgsm", "pgd"])
def test_attack_counts_the_answers_that_are_changed(visit: Visit, method: str) -> None:
    """ "the capsules keep their answer for … and the CNN for …": it follows the slider."""
    view = visit.open(f"attack?method={method}")
    measured = visit.page.evaluate("fetch('api/differences').then((answer) => answer.json())")
    changes, first = measured["changes"][method], measured["attack"][method]
    slider = view.get_by_role("slider")
    for key in ("Home", "PageUp", "End"):
        slider.press(key)
        at = changes["epsilons"].index(pytest.approx(float(slider.input_value())))
        kept = [changes["count"] - changes[network][at] for network in ("capsules", "cnn")]
        numbers = [changes["count"], *kept, *(first[name] for name in ("cnn", "capsules", "both", "neither"))]
        view.locator(".how-often", has_text=f"ε = {changes['epsilons'][at]:.2f}").wait_for()
        assert shown_counts(view) == sorted(numbers)
    assert visit.errors == []


@pytest.mark.parametrize("name", ["overlap", "toy", "attack", "compare"])
def test_a_view_opens_with_an_input_on_which_the_networks_differ(visit: Visit, name: str) -> None:
    answer = visit.response_to(name, lambda: visit.open(name))
    view = visit.page.locator(f"#view-{name}")
    verdicts = view.locator(".verdict:visible").all_inner_texts()[-2:]
    view.get_by_text("Here they differ; the view opens with such an example.").wait_for()
    if name == "compare":
        changed = [each["attacked"]["best"] != each["best"] for each in answer["networks"]]
        assert ["→" in text for text in verdicts] == changed
        assert sorted(changed) == [False, True]
    elif name in ("overlap", "toy"):
        wrong = ["correct" not in text or "one of two" in text for text in verdicts]
        assert sorted(wrong) == [False, True]
    else:
        view.get_by_text("First to change: the ").wait_for()
        at = answer["epsilons"].index(pytest.approx(float(view.get_by_role("slider").input_value())))
        changed = [answer[key]["after"][at] != answer[key]["before"] for key in ("capsules", "cnn")]
        assert sorted(changed) == [False, True], "at the ε that is chosen first"
        assert ["→" in text for text in verdicts] == changed


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
def test_the_rates_over_many_scenes_are_named(visit: Visit, world: str) -> None:
    view = visit.open(f"parts?world={world}").locator(".world:not([hidden])")
    counts = visit.page.evaluate("fetch('api/differences').then((answer) => answer.json())")["wholes"][world]
    scrambled, intact, named = (counts[name] for name in ("scrambled", "intact", "named"))
    rates = view.locator(".how-often")
    view.locator(".how-often:not(:empty)").wait_for()
    assert re.findall(r"\d[\d,]*(?:\.\d)?", rates.inner_text()) == [
        f"{scrambled['count']:,}",
        f"{scrambled['both'] + scrambled['capsules']:,}",
        "0.5",
        f"{scrambled['capsules'] + scrambled['neither']:,}",
        f"{intact['count']:,}",
        f"{intact['both'] + intact['capsules']:,}",
    ]
    networks = view.get_by_role("region", name="The two networks")
    (low, high), far = counts["scale"], counts["offset"][1]
    networks.get_by_text(f"size {low:.2f} to {high:.2f}, at most {far:.1f} off the middle").wait_for()
    for line, key in zip(networks.locator("summary").all(), ("capsules", "cnn"), strict=True):
        error = 100 * (1 - (named["both"] + named[key]) / named["count"])
        assert f"{round(error, 2):g}% errors on {named['count']:,} test images" in line.inner_text()
    assert visit.errors == []


def test_overlap_leads_with_the_errors_of_the_test_set(visit: Visit) -> None:
    """60,000 images say more than 200; an error is an image whose two digits are not both right."""
    view = visit.open("overlap")
    models = visit.page.evaluate("fetch('api/status').then((answer) => answer.json())")["models"]
    capsules, cnn = (
        next(each["metrics"] for each in models if each["id"] == name)
        for name in ("capsnet_small-multimnist", "capsnet_cnn-multimnist")
    )
    text = view.locator(".message").inner_text()
    assert text.startswith(
        f"On {capsules['count']:,} test pairs, the capsules have {100 * capsules['error']:.2f}% errors "
        f"and the CNN {100 * cnn['error']:.2f}%."
    )
    top, below = (view.locator(name).bounding_box()["y"] for name in (".message", ".how-often"))
    assert top < below
    assert "also draw each digit" in text


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
    assert "var(--wrong)" in fills[wrong.pop()]
    keys = view.locator(".miss-key")
    assert [key.is_visible() for key in keys.all()] == [False, True], "only the CNN is wrong here"
    swatch = keys.last.evaluate("key => getComputedStyle(key, '::before').backgroundImage")
    assert swatch.startswith("repeating-linear-gradient"), "the stripes of the bar"

"""Compare in the browser: choose a pair and an image, attack both, and turn a toy."""

import re
from typing import Any

import pytest

from support.browser import Visit

pytest_plugins = ["support.browser_fixtures"]


# Whether the name that a select shows fits beside its arrow.
FULL_NAME = """select => {
  const style = getComputedStyle(select);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = style.font;
  const room = select.clientWidth - 2 * parseFloat(style.paddingLeft) - 16;
  return pen.measureText(select.selectedOptions[0].text).width <= room;
}"""


def test_a_pair_and_an_attack(visit: Visit) -> None:
    view = visit.open("compare")
    cards = view.locator(".compared")
    cards.nth(1).locator(".value").first.wait_for()
    assert cards.count() == 2
    assert "independent of the others" in cards.first.locator("header").inner_text()
    visit.response_to("compare", view.get_by_text("No attack", exact=True).click)
    visit.response_to(
        "compare", lambda: view.get_by_label("First network").select_option("capsnet_small-mnist")
    )
    assert "recipe mnist-capsnet-small" in cards.first.locator(".network").text_content()
    assert cards.first.locator("figure:visible").count() == 2, "there is a reconstruction"
    assert cards.last.locator("figure:visible").count() == 1
    assert ["no decoder" in card.inner_text() for card in cards.all()] == [False, True]
    if visit.page.viewport_size["width"] > 1000:
        for name in (".bars", ".compared .pair"):
            one, two = (box.bounding_box()["y"] for box in view.locator(name).all())
            assert one == pytest.approx(two, abs=1), "the cards line up"
    assert re.fullmatch(r"score 0\.\d\d", view.locator(".verdicts .words").first.inner_text())
    choice = view.locator(".network-choice")
    widths = [box.bounding_box()["width"] for box in (choice, view.locator(".stage"))]
    assert widths[0] == pytest.approx(widths[1], abs=1)
    for select in choice.locator("select").all():
        assert select.evaluate(FULL_NAME), "the chosen name is not cut"
    slider = view.get_by_role("slider", name="largest change of a pixel")
    assert not slider.is_visible()
    answer = visit.response_to("compare", view.get_by_text("FGSM", exact=True).click)
    assert all(network["attacked"] for network in answer["networks"])
    answer = visit.response_to("compare", lambda: slider.press("End"))
    label = slider.locator("xpath=../label")
    assert label.bounding_box()["height"] < 30, "on one line"
    for card, verdict, network in zip(
        cards.all(), view.locator(".verdicts > div").all(), answer["networks"], strict=True
    ):
        best, after = network["best"], network["attacked"]["best"]
        expected = f"{best} → {after}" if best != after else str(best)
        assert verdict.locator(".big").inner_text() == expected
        named = [network["scores"][best], network["attacked"]["scores"][after]]
        for score in named:
            assert f"{score:.2f}" in verdict.locator(".words").inner_text()
        shares = card.locator(".bar .ghost").evaluate_all(
            "all => all.map((one) => parseFloat(one.style.width))"
        )
        assert shares == pytest.approx([100 * score for score in network["scores"]], abs=0.1), "before"
        assert "Pale bars: before the attack." in card.inner_text()
        pictures = card.locator(".pair > :visible").all()
        assert len(pictures) == 4, "no picture stands alone in its row"
        picture, bar = (box.bounding_box() for box in (pictures[-1], card.locator(".color-bar")))
        assert bar["x"] + bar["width"] / 2 == pytest.approx(picture["x"] + picture["width"] / 2, abs=2)
    visit.finish("compare")


def test_only_networks_for_the_same_images_are_offered(visit: Visit) -> None:
    view = visit.open("compare")
    first, second = view.get_by_label("First network"), view.get_by_label("Second network")
    offered = second.locator("option").all_inner_texts()
    groups = second.locator("optgroup").evaluate_all(
        "all => all.map((group) => [group.label, [...group.children].map((one) => one.textContent)])"
    )
    assert "CNN with dense layers" in dict(groups)["trained on MultiMNIST"]
    assert all(len(set(names)) == len(names) for _, names in groups), "names tell networks apart"
    assert sum(len(names) for _, names in groups) == len(offered)
    assert "trained on toys" not in dict(groups)
    assert "trained on toys" in first.locator("optgroup").evaluate_all("all => all.map((one) => one.label)")
    answer = visit.response_to("compare", lambda: first.select_option("matrix_capsnet_small-toys"))
    assert second.locator("option").all_inner_texts() == ["CNN with pooling"]
    assert [network["id"] for network in answer["networks"]] == [
        "matrix_capsnet_small-toys",
        "pooled_cnn-toys",
    ]
    azimuth = view.get_by_role("slider", name="Azimuth")
    turned = visit.response_to("compare", lambda: azimuth.press("End"))
    assert turned["networks"][0]["seen"] != answer["networks"][0]["seen"]
    visit.finish("compare-toys")


def test_compare_opens_with_the_networks_of_attack(visit: Visit) -> None:
    """ "at first the capsules and the CNN of Attack, of about equal size"; Draw has another network."""
    (draw,), attack, compare = (
        visit.open(name).locator(".network:visible > summary").all_inner_texts()
        for name in ("draw", "attack", "compare")
    )
    assert all("parameters" in text for text in (draw, *attack))
    assert compare == attack
    assert attack[0] != draw
    assert compare[1].startswith("CNN ")
    assert visit.errors == []


def test_compare_warns_of_different_sizes(visit: Visit) -> None:
    view = visit.open("compare")
    sizes = view.locator(".sizes")
    sizes.get_by_text(re.compile(r"^Parameters: \d+K and \d+K\.$")).wait_for()
    models = visit.page.evaluate("fetch('api/status').then((answer) => answer.json())")["models"]
    counts = {each["id"]: each["num_params"] for each in models}
    one, two = counts["shared_capsnet-mnist"], counts["pooled_cnn-mnist"]
    assert 0.5 < one / two < 2
    visit.response_to(
        "compare", lambda: view.get_by_label("First network").select_option("capsnet_small-mnist")
    )
    factor = counts["capsnet_small-mnist"] / two
    assert factor > 2
    sizes.get_by_text(f"One network is {factor:.1f} times as large as the other").wait_for()


def test_the_drawing_is_an_input_and_a_reload_keeps_the_pair(browser: Any, lab: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 1200}, reduced_motion="reduce")
    visit = Visit(page, lab, "wide")
    visit.response_to("draw", visit.open("draw").get_by_role("button", name="Example of 5").click)
    view = visit.open("compare")
    assert view.get_by_role("button", name="Your drawing").get_attribute("aria-pressed") == "true"
    answer = visit.response_to("compare", view.get_by_role("button", name="7", exact=True).click)
    assert answer["networks"][0]["best"] == 7
    for which, network in (("First", "capsnet_small-mnist"), ("Second", "shared_capsnet-mnist")):
        visit.response_to(
            "compare",
            lambda which=which, network=network: view.get_by_label(f"{which} network").select_option(network),  # type: ignore[misc]
        )
    page.reload()
    visit.wait_idle()
    view.locator(".compared h2").last.wait_for()
    assert view.locator(".compared h2").all_inner_texts() == [
        "Capsule network with dynamic routing, trained on MNIST",
        "Capsule network with shared weights, trained on MNIST",
    ]
    assert visit.errors == []
    page.close()

"""Compare in the browser: choose a pair and an image, attack both, and turn a toy."""

from typing import Any

from support.browser import Visit

pytest_plugins = ["support.browser_fixtures"]


def test_a_pair_and_an_attack(visit: Visit) -> None:
    view = visit.open("compare?a=capsnet_small-mnist&attack=none")
    cards = view.locator(".compared")
    cards.nth(1).locator(".value").first.wait_for()
    assert cards.count() == 2
    assert "independent of the others" in cards.first.locator("header").inner_text()
    assert "recipe mnist-capsnet-small" in cards.first.locator(".network").text_content()
    assert cards.first.locator("figure:visible").count() == 2, "there is a reconstruction"
    assert cards.last.locator("figure:visible").count() == 1
    slider = view.get_by_role("slider", name="largest change of a pixel")
    assert not slider.is_visible()
    answer = visit.response_to("compare", view.get_by_text("FGSM", exact=True).click)
    assert all(network["attacked"] for network in answer["networks"])
    answer = visit.response_to("compare", lambda: slider.press("End"))
    assert "ε = 0.50" in cards.last.inner_text()
    best, after = answer["networks"][1]["best"], answer["networks"][1]["attacked"]["best"]
    expected = f"{best} → {after}" if best != after else str(best)
    assert view.locator(".verdicts .big").last.inner_text() == expected
    visit.finish("compare")


def test_only_networks_for_the_same_images_are_offered(visit: Visit) -> None:
    view = visit.open("compare")
    first, second = view.get_by_label("First network"), view.get_by_label("Second network")
    offered = second.locator("option").all_inner_texts()
    assert "CNN with dense layers, trained on MultiMNIST" in offered
    assert len(set(offered)) == len(offered), "names tell networks apart"
    assert not any("toys" in name for name in offered)
    assert (
        "Matrix capsule network with EM routing, trained on toys (stereo pairs)"
        in view.locator(".toolbar").first.inner_text()
    )
    answer = visit.response_to("compare", lambda: first.select_option("matrix_capsnet_small-toys"))
    assert second.locator("option").all_inner_texts() == ["CNN with pooling, trained on toys"]
    assert [network["id"] for network in answer["networks"]] == [
        "matrix_capsnet_small-toys",
        "pooled_cnn-toys",
    ]
    azimuth = view.get_by_role("slider", name="Azimuth")
    turned = visit.response_to("compare", lambda: azimuth.press("End"))
    assert turned["networks"][0]["seen"] != answer["networks"][0]["seen"]
    visit.finish("compare-toys")


def test_compare_opens_with_the_networks_of_attack(visit: Visit) -> None:
    """ "Compare opens with the same two networks"; both say so with a plain name and the size."""
    names = [
        visit.open(name).locator(".network:visible > summary").all_inner_texts()
        for name in ("attack", "compare")
    ]
    assert len(names[0]) == 2
    assert all("weights" in text for text in names[0])
    assert names[0] == names[1]
    assert visit.errors == []


def test_the_drawing_is_an_input_and_a_reload_keeps_the_pair(browser: Any, lab: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 1200}, reduced_motion="reduce")
    visit = Visit(page, lab, "wide")
    visit.response_to("draw", visit.open("draw").get_by_role("button", name="Example of 5").click)
    view = visit.open("compare")
    assert view.get_by_role("button", name="Your drawing").get_attribute("aria-pressed") == "true"
    answer = visit.response_to("compare", view.get_by_role("button", name="7", exact=True).click)
    assert answer["networks"][0]["best"] == 7
    visit.response_to(
        "compare", lambda: view.get_by_label("Second network").select_option("capsnet_small-mnist")
    )
    page.reload()
    visit.wait_idle()
    view.locator(".compared h2").last.wait_for()
    assert view.locator(".compared h2").all_inner_texts() == [
        "Capsule network with shared weights, trained on MNIST",
        "Capsule network with dynamic routing, trained on MNIST",
    ]
    assert visit.errors == []
    page.close()

"""The view of a run in the browser: its network on an image, and its curves while it is trained."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from support.browser import Visit, serve
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.run import LabRun
from torchcaps.training import train
from torchcaps.training.lock import RunLock
from torchcaps.training.recipe import Recipe

pytest_plugins = ["support.browser_fixtures"]

RECIPE = {
    "model": {"name": "capsnet_small"},
    "data": {"name": "digits", "options": {"size": 28}, "limit": 64},
    "loss": {"name": "margin"},
    "training": {"epochs": 1, "batch_size": 32},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    train(Recipe.from_table(RECIPE), folder)
    return folder


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[str]:
    """A lab with this run and no other network."""
    with serve(ModelStore({}), run=LabRun(folder)) as url:
        yield url


def expect_draw_errors(visit: Visit) -> None:
    """The view Draw, which opens first, has no network here."""
    visit.errors[:] = [error for error in visit.errors if "503" not in error]


def png(color: int) -> bytes:
    buffer = BytesIO()
    Image.new("L", (40, 40), color).save(buffer, "PNG")
    return buffer.getvalue()


def test_the_network_of_the_run(visit: Visit) -> None:
    view = visit.open("run")
    thumbs = view.locator(".thumbs.pictures button")
    thumbs.first.wait_for()
    assert thumbs.count() == 20
    answer = visit.response_to("run/image", thumbs.nth(3).click)
    assert view.locator(".verdict .big").nth(1).inner_text() == str(answer["best"])
    assert view.locator(".run-maps figure").count() == len(answer["maps"]) >= 1
    assert view.locator(".tree .node").count() >= 2
    assert answer["scores"] == pytest.approx(answer["norms"], abs=0.01)
    sentence = "The scores are the lengths of the class capsules, which have 16 numbers each."
    assert view.get_by_text(sentence).is_visible()
    assert view.get_by_role("heading", name="Class capsules").count() == 0, "a heading with nothing below it"
    uploaded = {"name": "a.png", "mimeType": "image/png", "buffer": png(200)}
    answer = visit.response_to("run/image", lambda: view.locator(".file").set_input_files(uploaded))
    assert answer["seen"]["height"] == 28
    assert "the data set says" not in view.locator(".verdict").nth(1).inner_text()
    uploaded_scores = view.locator(".bars").first.inner_text()
    visit.stroke(view.locator(".pad"), (0.4, 0.2), (0.6, 0.8))
    visit.wait_idle()
    assert view.locator(".bars").first.inner_text() != uploaded_scores
    expect_draw_errors(visit)
    visit.finish("run")


def test_curves_grow_while_it_is_trained(browser: Any, lab: str, folder: Path) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 1200}, reduced_motion="reduce")
    lock, metrics = RunLock(folder), folder / "metrics.jsonl"
    before = metrics.read_bytes()
    try:
        visit = Visit(page, lab, "curves")
        view = visit.open("run")
        view.get_by_text("in training", exact=True).wait_for()
        charts = view.locator(".chart-box:not(.empty)")
        assert charts.count() == 4
        loss = charts.first
        page.evaluate("window.kept = document.querySelector('.chart .line.s0')")
        for step, value in ((100, 0.75), (200, 0.5)):
            record = {
                "step": step,
                "epoch": 2,
                "loss": value,
                "accuracy": 0.9,
                "lr": 0.001,
                "images_per_second": 50,
            }
            with metrics.open("a") as file:
                file.write(json.dumps(record) + "\n")
        loss.get_by_text("step 200: recent steps 0.5; step 2: whole epoch").wait_for()
        for line in ("s0", "s1", "s2"):
            drawn, key = (loss.locator(f"{part} .line.{line}") for part in (".chart", ".chart-legend"))
            styles = [
                each.evaluate(
                    "path => ['stroke', 'stroke-dasharray', 'stroke-linecap'].map("
                    "(name) => getComputedStyle(path).getPropertyValue(name))"
                )
                for each in (drawn, key)
            ]
            assert styles[0] == styles[1], "the legend shows the lines as they are drawn"
        assert page.evaluate("window.kept === document.querySelector('.chart .line.s0')"), "not built again"
        assert loss.locator(".chart .line.s0").get_attribute("d").count("L") == 1
        picture = loss.locator(".chart")
        picture.focus()
        picture.press("ArrowLeft")
        picture.press("ArrowLeft")
        assert "step 100: recent steps 0.75" in loss.locator(".chart-readout").inner_text()
        box = picture.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 16, box["y"] + 60)
        assert "step 200: recent steps 0.5" in loss.locator(".chart-readout").inner_text()
        assert "learning rate 1.00e−3" in view.inner_text()
        lock.release()
        view.get_by_text("finished", exact=True).wait_for()
        expect_draw_errors(visit)
        assert visit.errors == []
    finally:
        lock.release()
        metrics.write_bytes(before)
        page.close()


@pytest.mark.parametrize("width", [1440, 1401, 1280, 1001])
@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_no_tab_is_cut_off(browser: Any, lab: str, width: int, locale: str) -> None:
    """With the view of a run there are ten tabs; the first one was out of sight at 1280 px."""
    page = browser.new_page(viewport={"width": width, "height": 900}, locale=locale)
    page.goto(lab)
    page.locator("#tab-run").wait_for()
    tabs = page.locator(".tabs").bounding_box()
    for tab in page.get_by_role("tab").all():
        box = tab.bounding_box()
        assert box["x"] >= tabs["x"] - 1
        assert box["x"] + box["width"] <= tabs["x"] + tabs["width"] + 1
    page.close()

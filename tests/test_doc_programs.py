"""The programs on the pages in docs/ run, and do what the text around them says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageOps

import torchcaps
import torchcaps.data
import torchcaps.training
from torchcaps import exporting
from torchcaps.routing import DynamicRouting, EMRouting
from torchcaps.training import Predictor, default_recipe, load_recipe

ROOT = Path(__file__).parents[1]
COMMAND_LINE = ROOT / "docs" / "guides" / "commandline.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")])
# Pages whose programs run, block by block in one namespace.
PROGRAMS = sorted(
    [ROOT / "docs" / f"{name}.md" for name in ("index", "start", "concepts", "export")]
    + [
        ROOT / "docs" / f"{name}.md"
        for name in ("kernels", "parsing", "parts", "solids", "viewpoint", "worlds")
    ]
    + [page for page in ROOT.glob("docs/guides/*.md") if page != COMMAND_LINE]  # it has commands only
)
# Blocks that do not run here, by page, and why.
NOT_RUN = {"guides/backbone.md": "a timm model with trained weights: needs the extra timm and a download"}
FENCE = re.compile(r"^ *```.*?^ *```$", flags=re.DOTALL | re.MULTILINE)


def site_path(page: Path) -> str:
    return page.relative_to(ROOT / "docs").as_posix()


@pytest.mark.filterwarnings("error:.*one child per parent:UserWarning")
@pytest.mark.parametrize("page", PROGRAMS, ids=site_path)
def test_programs_of_the_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name == "export.md":
        pytest.importorskip("onnxscript")
    text = page.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": page.stem}
    blocks = list(re.finditer(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE))
    left_out = [block for block in blocks if block[1].startswith("# not run:")]
    assert len(left_out) == (site_path(page) in NOT_RUN)
    assert len(blocks) > len(left_out)
    for block in blocks:
        lines_before = text[: block.start(1)].count("\n")  # so that a traceback shows the right line
        code = compile("\n" * lines_before + block[1], str(page), "exec")
        if block not in left_out:
            exec(code, names)
    if page.name in CHECKS:
        CHECKS[page.name](names)


def test_every_page_with_programs_is_run() -> None:
    """The pages that this file runs, and those that have a test of their own."""
    own = {"CONTRIBUTING.md", "README.md", "README.zh-CN.md", "docs/sklearn.md", "docs/sweeps.md"}
    pages = {page for page in PAGES if "```python" in page.read_text(encoding="utf-8")}
    names = {page.relative_to(ROOT).as_posix() for page in pages - set(PROGRAMS)}
    # The code of the Chinese pages is that of the English ones.
    assert {name for name in names if not name.startswith("docs/zh/")} == own


def accuracy(names: Mapping[str, Any]) -> float:
    return float(names["result"]["metrics"]["test"]["accuracy"])


def check_backbone(names: Mapping[str, Any]) -> None:
    """The command line trains the registered network with the loss of the page's call of `fit`."""
    run = load_recipe("runs/digit_head/recipe.toml")
    assert default_recipe("digit_head", "digits").loss.name == run.loss.name == "margin"


def check_concepts(names: Mapping[str, Any]) -> None:
    """EM ends with couplings of 0 and 1, as the page says, and every child of the grid is given away once."""
    em = EMRouting(2, iterations=3, activation="mixing")
    coupling = em(names["votes"], torch.ones(1, 4), names["start"], coupling=True).coupling[0, 0, :, 0]
    torch.testing.assert_close(coupling, torch.tensor([1.0, 1.0, 1.0, 0.0]), atol=1e-3, rtol=0)
    soft = DynamicRouting(iterations=3)(names["votes"], torch.ones(1, 4), names["start"], coupling=True)
    assert float(soft.coupling.min()) > 0.02
    assert float(soft.activation.max()) < 1
    assert names["routed"].coupling.sum().item() == pytest.approx(50, abs=1e-3)


def check_export(names: Mapping[str, Any]) -> None:
    description = names["description"]
    assert description["classes"] == [str(digit) for digit in range(10)]
    page = (ROOT / "docs" / "export.md").read_text("utf-8")
    explained = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+) \|", page, re.M))))
    assert {*description, *description["image"]} <= explained
    check_prepared_files(names)
    assert Path("digits-capsnet", "README.md").is_file()
    saved = Predictor.load("mine/model.safetensors")
    assert saved.card.classes == names["digits"].classes
    assert saved.card.facts["epochs"] == 1
    assert saved.card.facts["metrics"]["test"]["accuracy"] > 0


def check_prepared_files(names: Mapping[str, Any]) -> None:
    """The page's program prepares any image file as `torchcaps predict` does."""
    drawing = Image.new("RGBA", (90, 40), (0, 0, 0, 0))
    ImageDraw.Draw(drawing).line([(20, 5), (60, 9), (40, 36)], fill=(30, 0, 90, 255), width=5)
    paper = Image.new("RGB", drawing.size, "white")
    paper.paste(drawing, mask=drawing)
    drawing.save("clear.png")
    paper.save("paper.png")
    paper.convert("P").save("palette.gif")
    ImageOps.invert(paper).convert("L").save("board.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    paper.save("turned.jpg", exif=turned)
    shipped = Predictor.load("pooled_cnn-mnist")
    cards = [shipped.card, replace(shipped.card, pad=True, background=0.9)]
    cards += [replace(shipped.card, in_channels=channels, pad=channels == 3) for channels in (2, 3)]
    cards += [replace(card, image_size=(20, 36), preprocess={"standardize": True}) for card in cards]
    for card, path in product(
        cards, ("clear.png", "paper.png", "palette.gif", "board.png", "turned.jpg", "seven.png")
    ):
        shape = (card.in_channels, *card.image_size)
        description = exporting._describe(shipped.model, card, shape, None, ("scores",))
        predictor = Predictor(shipped.model, card)
        expected = predictor.preprocess.test(predictor.read(path)[None])[0]
        prepared = torch.from_numpy(np.array(names["prepare"](path, description)))
        torch.testing.assert_close(prepared, expected, atol=1e-5, rtol=0)
    for path in ("paper.png", "board.png", "seven.png"):
        images = names["prepare"](path, names["description"])[None]
        (scores,) = names["session"].run(["scores"], {"images": images})[0]
        for label, score in shipped.files([path])[0].scores.items():
            assert abs(scores[int(label)] - score) < 1e-3


def check_routing(names: Mapping[str, Any]) -> None:
    """The three networks that are compared differ in their routing alone, and have something to route."""
    assert list(names["networks"]) == ["uniform", "dynamic", "sharp"]
    squashes = {getattr(model.classes.routing, "squash", "hinton") for model in names["networks"].values()}
    assert squashes == {"hinton"}  # which the program of the page calls
    for model in names["networks"].values():
        assert model.forward_features(torch.rand(1, 1, 16, 16)).shape[1] == 9


def check_start(names: Mapping[str, Any]) -> None:
    assert accuracy(names) > 0.9
    assert names["model"].forward_features(names["images"]).shape[1] == 9
    read = names["reader"].files(["digit.png"])[0]
    assert (read.label, round(read.score, 2)) == ("7", 0.94)


@pytest.mark.slow
def test_the_last_command_of_the_start_page_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    images = next(block for block in FENCE.findall(text) if "mkdir" in block)
    digits = torchcaps.data.load("digits", size=16)
    names = {"train": digits, "load": torchcaps.data.load, "Image": pytest.importorskip("PIL.Image")}
    exec("\n".join(images.splitlines()[1:-1]), names)
    recipe = torchcaps.training.default_recipe("shared_capsnet", "folder:photos")
    metrics = torchcaps.training.train(recipe, "runs/photos")["metrics"]["test"]
    assert metrics["count"] == 40
    assert metrics["accuracy"] > 0.85


def check_traces(names: Mapping[str, Any]) -> None:
    assert f"```text\n{names['trees'][0]}\n```" in (ROOT / "docs/guides/traces.md").read_text("utf-8")


# What the text around the programs says of them.
CHECKS: dict[str, Callable[[Mapping[str, Any]], None]] = {
    "backbone.md": check_backbone,
    "concepts.md": check_concepts,
    "export.md": check_export,
    "routing.md": check_routing,
    "start.md": check_start,
    "traces.md": check_traces,
}


def test_the_program_of_the_page_on_scikit_learn_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", minversion="1.6")
    [program] = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "sklearn.md").read_text("utf-8"), flags=re.DOTALL
    )
    exec(program, {"__name__": "program"})
    accuracy, _, on_poses = capsys.readouterr().out.splitlines()
    assert float(accuracy.split()[0]) > 0.9
    assert float(on_poses) > 0.9


def test_the_program_of_the_page_on_sweeps_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    exec(program, {"__name__": "program"})
    assert list((tmp_path / "runs" / "tracked" / "tensorboard").iterdir())

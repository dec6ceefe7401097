import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image, ImageDraw

from support.found_parts import find_something
from torchcaps.models import PartsCapsNet
from torchcaps.models.weights import ModelCard, save_weights
from torchcaps.parsing import ParseTree

Run = Callable[..., None]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A network for parts that finds something, trained on a dark background."""
    torch.manual_seed(0)
    options = {"kinds": 2, "channels": 4, "proposals": 5}
    facts = {"kinds": ["wall", "roof"]}
    card = ModelCard("parts_capsnet", options, 2, 1, (32, 32), ("house", "boat"), facts=facts)
    model = card.build()
    assert isinstance(model, PartsCapsNet)
    find_something(model)
    path = tmp_path / "weights.safetensors"
    save_weights(path, model, card)
    return path


@pytest.fixture
def drawing() -> Path:
    """A dark house on light paper, in color, wider than high."""
    image = Image.new("RGB", (90, 60), (240, 235, 220))
    pen = ImageDraw.Draw(image)
    pen.rectangle((20, 30, 60, 50), fill=(120, 60, 30))
    pen.polygon([(20, 30), (60, 30), (40, 5)], fill=(160, 30, 30))
    image.save("house.png")
    return Path("house.png")


def test_a_picture_gets_a_tree_a_figure_and_json(
    run: Run, weights: Path, drawing: Path, capsys: pytest.CaptureFixture
) -> None:
    run("parse", drawing, "--run", weights, "--out", "trees")
    out = capsys.readouterr().out
    # Nothing of the picture is cropped, since the network reads any size.
    assert out.startswith("house.png: image, 48×32 px")
    assert "wall" in out or "roof" in out
    table = json.loads(Path("trees/house-parse.json").read_text())
    tree = ParseTree.from_dict(table)
    assert tree.size == (32, 48)
    assert all(node.name in out for node in tree.nodes())
    with Image.open("trees/house-parse.png") as figure:
        assert figure.width > 800
    run("parse", drawing, "--run", weights, "--json", "--size", 16)
    again = json.loads(capsys.readouterr().out)
    assert again["file"] == "house.png"
    assert again["size"] == [16, 24]


def test_dark_on_light_is_read_as_light_on_dark(
    run: Run, weights: Path, drawing: Path, capsys: pytest.CaptureFixture
) -> None:
    trees = []
    for options in ((), ("--invert",), ("--no-invert",)):
        run("parse", drawing, "--run", weights, "--json", *options)
        trees.append(ParseTree.from_dict(json.loads(capsys.readouterr().out)))
    assert trees[0] == trees[1]
    assert trees[0] != trees[2]


def test_paths_of_a_trained_run(
    run: Run, trained: Path, drawing: Path, capsys: pytest.CaptureFixture
) -> None:
    run("parse", drawing, "--run", trained, "--threshold", 1, "--children", 2)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("└─")]) == 1
    assert len([line for line in lines if "primary" in line]) == 2


def test_wrong_input_gets_one_sentence(
    run: Run, weights: Path, drawing: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    Path("notes.png").write_text("not an image")
    card = ModelCard("pooled_cnn", {}, 2, 1, (32, 32), ("cat", "dog"))
    cnn = tmp_path / "cnn.safetensors"
    save_weights(cnn, card.build(), card)
    fixed = ModelCard("capsnet_small", {"channels": 4, "decoder": None}, 2, 1, (28, 28), ("cat", "dog"))
    one_size = tmp_path / "fixed.safetensors"
    save_weights(one_size, fixed.build(), fixed)
    cases = [
        (("missing.png", "--run", weights), 1, "missing.png: there is no such file"),
        (("notes.png", "--run", weights), 1, "notes.png: it is not an image"),
        ((drawing, "--run", cnn), 2, "needs a network with capsule layers, and PooledCNN has none"),
        ((drawing, "--run", "runs/nowhere"), 1, "no such run"),
        ((drawing, "--run", one_size, "--size", 40), 2, "reads images of 28×28 pixels only"),
    ]
    for words, code, sentence in cases:
        run("parse", *words, code=code)
        error = capsys.readouterr().err.strip()
        assert sentence in error
        assert "Traceback" not in error
        assert len(error.splitlines()) == 1


def test_a_picture_of_another_program_is_read_with_the_shipped_weights(
    run: Run, capsys: pytest.CaptureFixture
) -> None:
    """A vector drawing with color gradients and grain; the house is turned by 14°, the boat by -8°."""
    picture = Path(__file__).with_name("house-and-boat.png")
    run("parse", picture, "--run", "parts_capsnet-shapes", "--json")
    found = {node["name"]: node for node in json.loads(capsys.readouterr().out)["roots"]}
    assert sorted(found) == ["boat", "house"]
    for name, angle in (("house", 14), ("boat", -8)):
        assert sorted(part["name"] for part in found[name]["children"]) == ["rectangle", "triangle"]
        assert found[name]["reading"]["angle"] == pytest.approx(angle, abs=5)

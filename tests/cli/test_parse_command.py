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
    # Nothing of the picture is cropped, since the network reads any size; places are those of the file.
    assert out.startswith("house.png: image, 90×60 px")
    assert "wall" in out or "roof" in out
    table = json.loads(Path("trees/house-parse.json").read_text())
    tree = ParseTree.from_dict(table)
    assert tree.size == (60, 90)
    assert table["read_size"] == [48, 72]  # 1.5 times the pixels of the training images
    assert tree.seen == (0, 0, 90, 60)
    for node in tree.nodes():
        # The pose is in units of half the shorter side, from the middle.
        if node.level == "part":
            assert node.reading["x"] == pytest.approx(45 + 30 * node.pose[2], abs=1e-3)
            assert node.reading["y"] == pytest.approx(30 - 30 * node.pose[3], abs=1e-3)
    assert all(node.name in out for node in tree.nodes())
    with Image.open("trees/house-parse.png") as figure:
        assert figure.width > 800
    run("parse", drawing, "--run", weights, "--json", "--size", 16)
    again = json.loads(capsys.readouterr().out)
    assert again["file"] == "house.png"
    assert again["size"] == [60, 90]
    assert again["read_size"] == [16, 24]


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


def test_places_of_a_cropped_picture_are_those_of_the_file(run: Run, drawing: Path, tmp_path: Path) -> None:
    """The network reads one size: the square in the middle of the picture, which is shown as a whole."""
    card = ModelCard("capsnet_small", {"channels": 4, "decoder": None}, 2, 1, (28, 28), ("cat", "dog"))
    path = tmp_path / "fixed.safetensors"
    save_weights(path, card.build(), card)
    run("parse", drawing, "--run", path)
    table = json.loads(Path("house-parse.json").read_text())
    assert table["size"] == [60, 90]
    assert table["seen"] == [15, 0, 75, 60]
    left, _, right, _ = table["roots"][0]["box"]
    assert 15 <= left < right <= 75


def test_wrong_input_gets_one_sentence(
    run: Run, weights: Path, drawing: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    Path("notes.png").write_text("not an image")
    card = ModelCard("pooled_cnn", {}, 2, 1, (32, 32), ("cat", "dog"))
    cnn = tmp_path / "cnn.safetensors"
    save_weights(cnn, card.build(), card)
    fixed = ModelCard("capsnet_small", {"channels": 4, "decoder": None}, 2, 1, (28, 28), ("cat", "dog"))
    Image.new("L", (300, 1)).save("line.png")
    Path("taken").touch()
    one_size = tmp_path / "fixed.safetensors"
    save_weights(one_size, fixed.build(), fixed)
    cases = [
        (("missing.png", "--run", weights), 1, "missing.png: there is no such file"),
        (("notes.png", "--run", weights), 1, "notes.png: it is not an image"),
        ((drawing, "--run", cnn), 2, "needs a network with capsule layers, and PooledCNN has none"),
        ((drawing, "--run", "runs/nowhere"), 1, "no such run"),
        ((drawing, "--run", one_size, "--size", 40), 2, "reads images of 28×28 pixels only"),
        (("line.png", "--run", weights), 1, "14400×48 = 691200 pixels, and at most 16384 are read"),
        ((drawing, "--run", weights, "--size", 5000), 1, "choose fewer pixels with --size"),
        ((drawing, "--run", weights, "--out", "taken"), 2, "--out taken must be a folder"),
        ((drawing, "--run", weights, "--out", "taken/trees"), 2, "--out taken/trees must be a folder"),
        ((drawing, "--run", drawing), 1, "house.png is not a weights file, whose name ends in .safetensors"),
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


def test_small_drawings_are_read_in_more_pixels_than_training_had(
    run: Run, capsys: pytest.CaptureFixture
) -> None:
    """A house and a boat as the world has them, small in the picture: with 64 pixels the house is missed."""
    picture = Image.new("L", (480, 480), 12)
    pen = ImageDraw.Draw(picture)
    # Wall and roof with a dark gap between them, the hull upside down, the sail on its side; dark marks.
    pen.polygon([(73, 245), (187, 245), (187, 297), (73, 297)], fill=220)
    pen.rectangle((73, 280, 187, 297), fill=92)
    pen.polygon([(73, 240), (187, 240), (130, 154)], fill=200)
    pen.polygon([(103, 194), (157, 194), (130, 154)], fill=84)
    pen.rectangle((289, 240, 403, 297), fill=210)
    pen.rectangle((289, 240, 403, 257), fill=88)
    pen.polygon([(329, 126), (329, 240), (415, 183)], fill=230)
    pen.polygon([(375, 157), (375, 209), (415, 183)], fill=96)
    small = Image.new("L", picture.size, 12)
    small.paste(picture.resize((400, 400), Image.Resampling.BILINEAR), (40, 40))
    small.save("small.png")
    names = []
    for options in ((), ("--size", 64)):
        run("parse", "small.png", "--run", "parts_capsnet-shapes", "--json", *options)
        table = json.loads(capsys.readouterr().out)
        wholes = ParseTree.from_dict(table).nodes("whole")
        names.append(sorted(node.name for node in wholes))
    assert names[0] == ["boat", "house"]
    assert names[1] != names[0]
    assert table["read_size"] == [64, 64]


def test_only_networks_of_parts_read_more_pixels(
    run: Run, drawing: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Digits of 42 pixels are misread by a network that was trained on 28."""
    card = ModelCard("shared_capsnet", {}, 2, 1, (28, 28), ("cat", "dog"))
    path = tmp_path / "shared.safetensors"
    save_weights(path, card.build(), card)
    run("parse", drawing, "--run", path, "--json")
    assert json.loads(capsys.readouterr().out)["read_size"] == [28, 42]


def test_the_help_says_what_the_threshold_cannot_do(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("parse", "--help")
    words = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "parts_capsnet finds no whole below 0.5" in words

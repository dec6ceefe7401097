"""After `torchcaps.fit`: which runs are loaded by their folder, and what is said of the others."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchcaps
from torchcaps.cli import main
from torchcaps.data import load
from torchcaps.errors import RunError
from torchcaps.models.registry import MODELS
from torchcaps.models.weights import load_weights
from torchcaps.training import ModelCard, Predictor, fit, load_into

QUICK: dict[str, Any] = {"epochs": 1, "batch_size": 64, "loss": "margin"}


def new_head(num_classes: int = 10, in_channels: int = 1, image_size: Any = 8) -> torchcaps.CapsuleHead:
    """A head on a backbone that has no name."""
    return torchcaps.CapsuleHead(
        nn.Sequential(nn.Conv2d(in_channels, 8, 3, stride=2, padding=1), nn.ReLU()),
        num_classes,
        in_channels=in_channels,
        image_size=image_size,
        types=4,
        pose="vector",
        pose_dim=8,
        routing="dynamic",
    )


@pytest.fixture
def registered() -> Iterator[str]:
    torchcaps.register_model(new_head)
    yield "new_head"
    MODELS._entries.pop("new_head")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[nn.Module, Path]:
    """A head that `create_model` did not build, and its run; the last epoch is not the best one."""
    model, run = new_head(), tmp_path_factory.mktemp("own")
    fit(model, load("digits"), out=run, val_fraction=0.1, **QUICK)
    return model, run


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


def test_a_registered_head_is_loaded_by_its_folder(registered: str, tmp_path: Path) -> None:
    model = torchcaps.create_model(registered, image_size=8)
    fit(model, load("digits"), out=tmp_path / "run", **QUICK)
    assert isinstance(model, torchcaps.Model)
    assert (model.card.model, model.card.classes[3]) == ("new_head", "3")
    reader = Predictor.load(tmp_path / "run")
    assert same_weights(reader.model, model)
    exported = torchcaps.export(tmp_path / "run", tmp_path / "head.pt2")
    files = {"torchcaps.json": ""}
    torch.export.load(exported.path, extra_files=files)
    assert json.loads(files["torchcaps.json"])["classes"] == list("0123456789")


def test_a_run_of_a_registered_head_is_evaluated_on_data_that_are_named(
    registered: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run = str(tmp_path / "run")
    fit(torchcaps.create_model(registered, image_size=8), load("digits"), out=run, **QUICK)
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", run])
    assert stopped.value.code == 2
    assert "name the data set to test on, such as --data folder:PATH" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", run, "--data", "digits", "--json"])
    assert not stopped.value.code
    assert json.loads(capsys.readouterr().out)["count"] == 355


def test_options_are_kept_with_the_name(tmp_path: Path) -> None:
    model = torchcaps.create_model("shared_capsnet", image_size=16, stages=((8,), (16,)), class_dim=4)
    fit(model, load("digits", size=16), out=tmp_path, **QUICK)
    again, card = load_weights(tmp_path / "last.safetensors")
    assert (card.model, card.options) == ("shared_capsnet", {"stages": [[8], [16]], "class_dim": 4})
    assert same_weights(again, model)


@pytest.mark.parametrize("change", ["layer", "object"])
def test_a_model_that_its_name_no_longer_builds_is_an_object(change: str, tmp_path: Path) -> None:
    routing: Any = torchcaps.create_routing("dynamic") if change == "object" else "dynamic"
    model = torchcaps.create_model("shared_capsnet", image_size=16, stages=[[8], [16]], routing=routing)
    if change == "layer":
        model.features[0] = nn.Conv2d(1, 8, 3, bias=False)
    fit(model, load("digits", size=16), out=tmp_path, **QUICK)
    assert model.card.model == "object:SharedCapsNet"
    assert model.card.classes == tuple("0123456789")


def test_an_own_model_takes_the_weights_that_its_run_reports(own: tuple[nn.Module, Path]) -> None:
    model, run = own
    again = load_into(new_head(), run)
    assert same_weights(again, model)
    assert isinstance(again.card, ModelCard)
    assert again.card.classes == tuple("0123456789")
    reader = Predictor.load(run, new_head())
    assert same_weights(reader.model, model)
    assert reader(load("digits", "test").images[:2])[0].label in reader.card.classes


def test_a_plain_module_reads_images(tmp_path: Path) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    fit(build(), load("digits"), out=tmp_path, epochs=1)
    reader = Predictor.load(tmp_path, build())
    assert len(reader(load("digits", "test").images[:3])) == 3
    assert reader.full_shape("none.png") == (8, 8)


def test_the_error_says_what_to_do(own: tuple[nn.Module, Path]) -> None:
    _, run = own
    sentence = (
        r"CapsuleHead, which cannot be built by name\. In Python, build the model and call "
        rf'torchcaps\.training\.load_into\(model, "{run}"\)'
        rf'.*Predictor\.load\("{run}", model\).*@torchcaps\.register_model.*torchcaps\.create_model.*--import'
    )
    with pytest.raises(RunError, match=sentence):
        Predictor.load(run)
    with pytest.raises(RunError, match=sentence):
        torchcaps.export(run, run / "head.pt2")
    with pytest.raises(RunError, match=r"is a folder, .*torchcaps\.training\.load_into"):
        load_weights(run)


def test_an_export_without_a_card_says_what_is_missing(own: tuple[nn.Module, Path], tmp_path: Path) -> None:
    sentence = "no names of classes and no preprocessing, as this PooledCNN has no card: give card=ModelCard"
    with pytest.warns(UserWarning, match=sentence):
        torchcaps.export(torchcaps.create_model("pooled_cnn", stages=[[4], [4]]), tmp_path / "net.pt2")
    model, run = own
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for each in (model, load_into(new_head(), run)):
            torchcaps.export(each, tmp_path / "head.pt2")
    files = {"torchcaps.json": ""}
    torch.export.load(tmp_path / "head.pt2", extra_files=files)
    assert json.loads(files["torchcaps.json"])["classes"] == list("0123456789")

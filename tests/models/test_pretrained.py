from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from torchcaps import create_model
from torchcaps._files import digest
from torchcaps.errors import DataError
from torchcaps.models import list_pretrained, pretrained
from torchcaps.models.weights import ModelCard, load_weights, read_tensors, save_weights
from torchcaps.training.publish.ship import check_shipped, keep_entry

CARD = ModelCard(
    "pooled_cnn", {"stages": [[4], [4]]}, 3, 1, (16, 16), ("a", "b", "c"), facts={"data": "letters"}
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shipped weights with one small network in it."""
    monkeypatch.setattr(pretrained, "FOLDER", tmp_path)
    save_weights(tmp_path / "small.safetensors", CARD.build(), CARD)
    entry = {
        "model": "pooled_cnn",
        "data": "letters",
        "file": "small.safetensors",
        "sha256": digest(tmp_path / "small.safetensors"),
    }
    keep_entry(entry, tmp_path)
    pretrained._digest_once.cache_clear()
    return tmp_path


def test_pretrained_takes_sizes_options_and_weights_from_the_file(folder: Path) -> None:
    model = create_model("pooled_cnn", pretrained="letters")
    assert model.num_classes == 3
    assert model.image_size == (16, 16)
    assert model.training  # as every other model, and as in timm
    saved, _ = load_weights(folder / "small.safetensors")
    images = torch.rand(2, 1, 16, 16)
    assert torch.equal(model(images).scores, saved(images).scores)


def test_the_same_sizes_may_be_said_again(folder: Path) -> None:
    create_model("pooled_cnn", pretrained="letters", image_size=16, num_classes=3, stages=[[4], [4]])


def test_tuples_and_lists_are_alike(folder: Path) -> None:
    create_model("pooled_cnn", pretrained="letters", image_size=(16, 16), stages=((4,), (4,)))


def test_an_option_that_was_left_alone_is_not_said_to_be_none(folder: Path) -> None:
    with pytest.raises(ValueError, match="have the network's own hidden, not 7: leave hidden out"):
        create_model("pooled_cnn", pretrained="letters", hidden=7)


def test_another_option_than_the_weights_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"have stages=\[\[4\], \[4\]\], not \[\[8\], \[4\]\]"):
        create_model("pooled_cnn", pretrained="letters", stages=[[8], [4]])


def test_another_number_of_classes_gets_a_new_class_layer(folder: Path) -> None:
    trained = create_model("pooled_cnn", pretrained="letters")
    model = create_model("pooled_cnn", pretrained="letters", num_classes=7)
    assert model.new_parameters == ("head.2.weight", "head.2.bias")
    assert model.training
    assert model(torch.rand(2, 1, 16, 16)).scores.shape == (2, 7)
    own, other = dict(model.named_parameters()), dict(trained.named_parameters())
    for name in own:
        assert torch.equal(own[name], other[name]) is (name not in model.new_parameters)


@pytest.mark.parametrize("channels", [2, 3])
def test_other_channels_keep_the_features_of_a_gray_image(folder: Path, channels: int) -> None:
    trained = create_model("pooled_cnn", pretrained="letters").eval()
    model = create_model("pooled_cnn", pretrained="letters", in_channels=channels).eval()
    assert model.new_parameters == ()
    gray = torch.rand(2, 1, 16, 16)
    torch.testing.assert_close(
        model(gray.expand(-1, channels, -1, -1)).scores, trained(gray).scores, atol=1e-6, rtol=1e-5
    )


def test_another_image_size_is_taken_where_the_network_reads_any(folder: Path) -> None:
    model = create_model("pooled_cnn", pretrained="letters", image_size=28)
    assert (model.image_size, model.new_parameters) == ((28, 28), ())


def test_a_class_layer_that_an_image_size_makes_new_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="classes.weight.* start untrained"):
        model = create_model("capsnet_small", pretrained="mnist", image_size=32)
    assert "classes.weight" in model.new_parameters


def test_frozen_layers_do_not_train(folder: Path) -> None:
    model = create_model("pooled_cnn", pretrained="letters", num_classes=7, freeze=True)
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == set(model.new_parameters)
    model = create_model("pooled_cnn", pretrained="letters", freeze=["features"])
    trained = {name.split(".")[0] for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trained == {"head"}


@pytest.mark.parametrize(
    ("freeze", "message"),
    [(["featurs"], "did you mean 'features'"), ("features", "names of layers"), ([1], "names of layers")],
)
def test_what_cannot_be_frozen_is_named(folder: Path, freeze: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        create_model("pooled_cnn", pretrained="letters", freeze=freeze)


def test_freezing_everything_needs_pretrained_weights() -> None:
    with pytest.raises(ValueError, match="needs pretrained weights"):
        create_model("pooled_cnn", freeze=True)


def test_true_takes_the_only_weights_there_are(folder: Path) -> None:
    assert create_model("pooled_cnn", pretrained=True).num_classes == 3


def test_unknown_weights_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="did you mean 'letters'"):
        create_model("pooled_cnn", pretrained="leters")
    with pytest.raises(ValueError, match="did you mean 'letters'"):
        create_model("pooled_cnn", pretrained="LETTERS")
    with pytest.raises(ValueError, match="none of this model do"):
        create_model("capsnet", pretrained="letters")


def test_a_changed_file_is_refused(folder: Path) -> None:
    with open(folder / "small.safetensors", "r+b") as file:
        file.seek(-1, 2)
        file.write(b"\xff")
    pretrained._digest_once.cache_clear()
    with pytest.raises(ValueError, match="not the file that was shipped"):
        create_model("pooled_cnn", pretrained="letters")


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "small.safetensors").unlink()
    with pytest.raises(ValueError, match="is missing"):
        create_model("pooled_cnn", pretrained="letters")


@pytest.mark.parametrize(("what", "value"), [("model", "capsnet"), ("data", "words")])
def test_weights_of_another_name_are_named(folder: Path, what: str, value: str) -> None:
    (entry,) = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps([{**entry, what: value}]))
    said = "of pooled_cnn trained on letters, not of"
    asked = {"model": "pooled_cnn", "data": "letters"} | {what: value}
    with pytest.raises(ValueError, match=f"small.safetensors holds weights {said}"):
        create_model(asked["model"], pretrained=asked["data"])


@pytest.mark.parametrize("text", [None, "[{", "{}", '[{"model": "pooled_cnn"}]', '["x"]'])
def test_a_damaged_index_is_named(folder: Path, text: str | None) -> None:
    index = folder / "index.json"
    index.unlink() if text is None else index.write_text(text)
    with pytest.raises(ValueError, match=r"index\.json is missing or damaged .*: install torchcaps again"):
        create_model("pooled_cnn", pretrained="letters")


def test_a_damaged_file_whose_digest_fits_is_named(folder: Path) -> None:
    path = folder / "small.safetensors"
    path.write_bytes(b"not tensors at all")
    (entry,) = json.loads((folder / "index.json").read_text())
    keep_entry({**entry, "sha256": digest(path)}, folder)
    pretrained._digest_once.cache_clear()
    with pytest.raises(ValueError, match=r"small\.safetensors is damaged"):
        create_model("pooled_cnn", pretrained="letters")


def tensors_of(folder: Path) -> tuple[dict[str, torch.Tensor], str]:
    return read_tensors(folder / "small.safetensors")[0], "small.safetensors"


def test_weights_of_another_shape_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"is \[4, 1, 3, 3\] in the file and \[8, 1, 3, 3\] in the model"):
        pretrained.load_tensors(
            create_model("pooled_cnn", num_classes=3, image_size=16, stages=[[8], [4]]),
            *tensors_of(folder),
        )


def test_weights_that_are_missing_are_named(folder: Path) -> None:
    deeper = create_model("pooled_cnn", num_classes=3, image_size=16, stages=[[4, 4], [4]])
    with pytest.raises(ValueError, match="does not fit"):
        pretrained.load_tensors(deeper, *tensors_of(folder))


def test_a_newer_entry_takes_the_place_of_the_older(tmp_path: Path) -> None:
    for sha in ("old", "new"):
        keep_entry({"model": "a", "data": "b", "file": "a-b.safetensors", "sha256": sha}, tmp_path)
    entries = json.loads((tmp_path / "index.json").read_text())
    assert [entry["sha256"] for entry in entries] == ["new"]


def test_all_shipped_weights_fit_into_15_megabytes() -> None:
    assert sum(entry["bytes"] for entry in list_pretrained()) <= pretrained.MAX_BYTES
    files = {path.name for path in pretrained.FOLDER.glob("*.safetensors")}
    assert files == {entry["file"] for entry in list_pretrained()}


SHIPPED = [(entry["model"], entry["data"]) for entry in list_pretrained() if entry["data"] != "toys"]
TOYS = [(entry["model"], entry["data"]) for entry in list_pretrained() if entry["data"] == "toys"]


@pytest.mark.parametrize(("model", "data"), SHIPPED)
def test_shipped_weights_are_as_good_as_the_index_says(model: str, data: str) -> None:
    try:
        check_shipped(model, data)
    except DataError as missing:
        pytest.skip(str(missing))


@pytest.mark.slow  # renders the toys it has not got
@pytest.mark.parametrize(("model", "data"), TOYS)
def test_shipped_weights_for_toys_are_as_good_as_the_index_says(model: str, data: str) -> None:
    check_shipped(model, data)

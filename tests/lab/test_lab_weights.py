"""The networks come from the package; a missing or damaged file takes away one view, not the lab."""

from pathlib import Path

import pytest
from lab_models import CARDS

from torchcaps import models
from torchcaps.lab.weights import NEEDED, NoWeightsError, load_shelf
from torchcaps.training import save_weights

HERE, DAMAGED = ("pooled_cnn", "mnist"), ("pooled_cnn", "toys")


def test_what_is_there_is_loaded_and_the_rest_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = CARDS[HERE]
    save_weights(tmp_path / "good.safetensors", card.build(), card)
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors")

    def path(model: str, data: str) -> Path:
        if (model, data) == HERE:
            return tmp_path / "good.safetensors"
        if (model, data) == DAMAGED:
            return tmp_path / "bad.safetensors"
        raise ValueError("no such weights come with torchcaps")

    monkeypatch.setattr(models, "pretrained_path", path)
    shelf = load_shelf()
    assert shelf[HERE].card == card
    for key in NEEDED:
        if key != HERE:
            with pytest.raises(NoWeightsError, match=f"{key[0]} trained on {key[1]}"):
                shelf[key]
    assert [told["model"] for told in shelf.describe()] == ["pooled_cnn"]

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

    entry = {
        "model": HERE[0],
        "data": HERE[1],
        "metrics": {"test": {"accuracy": 0.5, "per_class": [0.5]}},
        "load": {"options": {"size": 48}},
    }
    monkeypatch.setattr(models, "pretrained_path", path)
    monkeypatch.setattr(models, "list_pretrained", lambda: [entry])
    shelf = load_shelf()
    assert shelf[HERE].card.classes == card.classes
    assert shelf[HERE].card.facts["data_options"] == {"size": 48}
    for key in NEEDED:
        if key != HERE:
            with pytest.raises(NoWeightsError, match=f"{key[0]} trained on {key[1]}"):
                shelf[key]
    [told] = shelf.describe()
    assert (told["model"], told["data"], told["metrics"]) == (*HERE, {"accuracy": 0.5})

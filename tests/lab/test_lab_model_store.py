"""Networks are loaded from the package; a missing or damaged file removes one network, not the lab."""

from pathlib import Path

import pytest

from support.lab_models import CARDS
from torchcaps import models
from torchcaps.lab.model_store import REQUIRED_MODELS, MissingWeightsError, load_model_store
from torchcaps.training import save_weights

INSTALLED, DAMAGED = ("pooled_cnn", "mnist"), ("pooled_cnn", "toys")


def test_networks_that_cannot_be_loaded_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = CARDS[INSTALLED]
    save_weights(tmp_path / "good.safetensors", card.build(), card)
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors")

    def path(model: str, data: str) -> Path:
        if (model, data) == INSTALLED:
            return tmp_path / "good.safetensors"
        if (model, data) == DAMAGED:
            return tmp_path / "bad.safetensors"
        raise ValueError("no such weights come with torchcaps")

    entry = {
        "model": INSTALLED[0],
        "data": INSTALLED[1],
        "metrics": {"test": {"accuracy": 0.5, "per_class": [0.5]}},
        "load": {"options": {"size": 48}},
    }
    monkeypatch.setattr(models, "pretrained_path", path)
    monkeypatch.setattr(models, "list_pretrained", lambda: [entry])
    store = load_model_store()
    assert store[INSTALLED].card.classes == card.classes
    assert store[INSTALLED].card.facts["data_options"] == {"size": 48}
    for key in REQUIRED_MODELS:
        if key != INSTALLED:
            with pytest.raises(MissingWeightsError, match=f"{key[0]} trained on {key[1]}"):
                store[key]
    [info] = store.info()
    assert (info.model, info.data, info.metrics) == (*INSTALLED, {"accuracy": 0.5})

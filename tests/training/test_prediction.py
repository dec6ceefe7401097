from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from torchcaps.errors import DataError
from torchcaps.models import create_model
from torchcaps.training import ModelCard, Predictor, RunError, load_weights, predict, save_weights

CARD = ModelCard("pooled_cnn", {"stages": [[4], [4]]}, 3, 1, (16, 16), ("cat", "dog", "eel"), background=0.02)


def test_prediction_does_not_depend_on_batches_or_mode() -> None:
    model = create_model("capsnet", image_size=20, channels=4, types=2, decoder=(8,)).train()
    images = torch.rand(5, 1, 20, 20)
    whole, parts = predict(model, images), predict(model, images, batch_size=2)
    for one, other in zip(whole, parts):
        for a, b in zip(
            one if isinstance(one, tuple) else [one], other if isinstance(other, tuple) else [other]
        ):
            torch.testing.assert_close(a, b)
    assert model.training
    assert not whole.scores.requires_grad


def test_saved_weights_are_loaded_bitwise_with_their_card(tmp_path: Path) -> None:
    model = CARD.build()
    save_weights(tmp_path / "w.safetensors", model, CARD)
    again, card = load_weights(tmp_path / "w.safetensors")
    assert card == CARD
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values()))


def test_damaged_and_missing_weights_are_named(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, CARD.build(), CARD)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(RunError, match=r"w\.safetensors is damaged"):
        load_weights(path)
    with pytest.raises(RunError, match="no such run"):
        Predictor.load(tmp_path / "nowhere")
    with pytest.raises(RunError, match="no trained model yet"):
        Predictor.load(tmp_path)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "1", "P", "I;16"])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_any_image_file_is_read(tmp_path: Path, mode: str, channels: int) -> None:
    card = ModelCard("pooled_cnn", {"stages": [[4], [4]]}, 2, channels, (16, 24), ("a", "b"))
    pixels = np.random.default_rng(0).integers(0, 256, (50, 33), dtype=np.uint8)
    image = Image.fromarray(pixels)
    image = Image.fromarray(pixels.astype(np.uint16) * 257) if mode == "I;16" else image.convert(mode)
    image.save(tmp_path / "image.png")
    predictor = Predictor(card.build(), card)
    assert predictor.read(tmp_path / "image.png").shape == (channels, 16, 24)
    (said,) = predictor.files([tmp_path / "image.png"])
    assert said.score == max(said.scores.values())


def test_black_on_white_is_inverted(tmp_path: Path) -> None:
    """Black on white and white on black are the same to a model that learned white on black."""
    pixels = np.zeros((16, 16), dtype=np.uint8)
    pixels[4:12, 7:9] = 255
    Image.fromarray(pixels).save(tmp_path / "chalk.png")
    Image.fromarray(255 - pixels).save(tmp_path / "ink.png")
    predictor = Predictor(CARD.build(), CARD)
    chalk, ink = predictor.read(tmp_path / "chalk.png"), predictor.read(tmp_path / "ink.png")
    assert torch.equal(chalk, ink)
    assert torch.equal(predictor.read(tmp_path / "ink.png", invert=False), 255 - chalk)


def test_a_file_that_is_not_an_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("not an image")
    with pytest.raises(DataError, match=r"notes\.png"):
        Predictor(CARD.build(), CARD).files([tmp_path / "notes.png"])

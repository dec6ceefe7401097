"""A loss that was not chosen is named when training starts, with the reason."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from torchcaps import fit
from torchcaps.data import load
from torchcaps.models import create_model

Run = Callable[..., None]
TINY = ["--model", "shared_capsnet", "--data", "digits", "--set", "model.options.stages=[[4], [4]]"]
TINY += ["--epochs", "1", "--budget", "0s", "--set", "evaluation.extra_datasets=[]"]


@pytest.mark.parametrize(
    ("routing", "sentence"),
    [
        (
            "dynamic",
            "loss: margin, the default of shared_capsnet; --set loss.name=NAME chooses another",
        ),
        (
            "em",
            "loss: cross_entropy, as the margin loss of shared_capsnet is for activations that are lengths, "
            "and routing 'em' has others (Routing.has_lengths is False)",
        ),
    ],
)
def test_the_loss_of_a_model_without_a_recipe_is_told(
    routing: str, sentence: str, run: Run, capsys: pytest.CaptureFixture
) -> None:
    run("train", *TINY, "--set", f"model.options.routing={routing}", "--json")
    shown = capsys.readouterr()
    assert f"torchcaps: {sentence}" in shown.err
    begin = json.loads(shown.out.splitlines()[0])
    assert f"loss: {begin['loss']}, " in sentence
    run("train", *TINY, "--quiet", "--set", f"model.options.routing={routing}")
    assert capsys.readouterr().err == ""


def test_nothing_is_told_about_a_loss_that_was_chosen(run: Run, capsys: pytest.CaptureFixture) -> None:
    run("train", *TINY, "--set", "model.options.routing=em", "--set", "loss.name=spread")
    shown = capsys.readouterr()
    assert "loss:" not in shown.err
    assert "spread loss, 1 epoch of 12 batches of 128" in shown.out


def test_fit_logs_the_loss_it_was_not_given(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    digits = load("digits", "test", size=16)
    for number, given in enumerate(({}, {"recipe": {"loss": {"absent_weight": 0.25}}}, {"loss": "margin"})):
        caplog.clear()
        model = create_model("pooled_cnn", image_size=16, stages=[[4], [4]])
        with caplog.at_level(logging.INFO, "torchcaps"):
            fit(model, digits, out=tmp_path / str(number), epochs=1, budget=0.0, **given)
        told = [each for each in caplog.messages if each.startswith("loss: cross_entropy, as fit was given")]
        assert len(told) == ("loss" not in given)

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console

from torchcaps.cli.tables import print_confusion
from torchcaps.data import load
from torchcaps.models.weights import load_weights, save_weights
from torchcaps.training.metrics import Evaluation
from torchcaps.training.prediction import Predictor

Run = Callable[..., None]


def test_evaluate_prints_tables_and_draws_a_figure(
    run: Run, trained: Path, capsys: pytest.CaptureFixture
) -> None:
    run("evaluate", trained, "--figure", "confusion.png")
    output = capsys.readouterr().out
    assert "accuracy" in output
    assert "precision" in output
    # Ten classes fit; the matrix is the last table, and its diagonal holds the images that are right.
    matrix = [line.split() for line in output.partition("true \\ predicted")[2].splitlines()[:11]]
    assert matrix[0] == [row[0] for row in matrix[1:]] == [str(digit) for digit in range(10)]
    right = sum(int(row[1 + place]) for place, row in enumerate(matrix[1:]))
    assert f"{100 * right / 355:.2f} %" in output
    assert Image.open("confusion.png").size[0] > 400


@pytest.mark.parametrize(
    ("classes", "columns", "printed"),
    [
        (("cat", "dog"), 80, True),
        (tuple(map(str, range(12))), 80, True),
        (tuple(map(str, range(13))), 80, False),
        (("a rather long name of a class",) * 4, 80, False),
        (tuple(map(str, range(12))), 40, False),
    ],
)
def test_a_wide_confusion_matrix_is_not_broken(
    classes: tuple[str, ...], columns: int, printed: bool, capsys: pytest.CaptureFixture
) -> None:
    evaluation = Evaluation(1, 1.0, 1.0, None, classes, torch.zeros(len(classes), len(classes)).long())
    print_confusion(evaluation, Console(width=columns))
    output = capsys.readouterr().out
    assert ("true \\ predicted" in output) == printed
    assert ("--figure PNG draws it, --json has it" in " ".join(output.split())) != printed


def test_evaluate_prints_json(run: Run, trained: Path, capsys: pytest.CaptureFixture) -> None:
    run("evaluate", trained, "--json")
    result = json.loads((trained / "result.json").read_text())
    printed = json.loads(capsys.readouterr().out)
    assert printed["accuracy"] == result["metrics"]["test"]["accuracy"]
    # The table per class says the same as the accuracy of all.
    assert [row["class"] for row in printed["classes"]] == [str(digit) for digit in range(10)]
    right = sum(row["count"] * row["recall"] for row in printed["classes"])
    assert right / printed["count"] == pytest.approx(printed["accuracy"])
    assert [sum(row) for row in printed["confusion"]] == [row["count"] for row in printed["classes"]]
    run("evaluate", trained, "--data", "two_digits", "--json")
    printed = json.loads(capsys.readouterr().out)
    assert printed["count"] == 355
    assert "confusion" not in printed  # an image with two labels is in no row


@pytest.fixture
def two_models(trained: Path, tmp_path: Path) -> Path:
    """A run whose best weights are all 0, so that they give other results than the last ones."""
    folder = Path(shutil.copytree(trained, tmp_path / "two_models"))
    model, card = load_weights(folder / "last.safetensors")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    save_weights(folder / "best.safetensors", model, card)
    return folder


def accuracy(capsys: pytest.CaptureFixture) -> float:
    return json.loads(capsys.readouterr().out)["accuracy"]


def test_evaluate_and_predict_use_the_same_weights(
    run: Run, two_models: Path, capsys: pytest.CaptureFixture
) -> None:
    run("evaluate", two_models, "--json")
    predictor, digits = Predictor.load(two_models), load("digits", "test", size=16)
    labels = [prediction.label for prediction in predictor(digits.images)]
    correct = [label == str(int(target)) for label, target in zip(labels, digits.labels)]
    assert accuracy(capsys) == pytest.approx(sum(correct) / len(correct))


def test_the_weights_can_be_chosen(run: Run, two_models: Path, capsys: pytest.CaptureFixture) -> None:
    result = json.loads((two_models / "result.json").read_text())
    run("evaluate", two_models, "--weights", "last", "--json")
    assert accuracy(capsys) == result["metrics"]["test"]["accuracy"]
    run("evaluate", two_models, "--weights", "best", "--json")
    assert accuracy(capsys) != result["metrics"]["test"]["accuracy"]
    (two_models / "best.safetensors").unlink()
    run("evaluate", two_models, "--weights", "best", code=2)
    assert "best.safetensors" in capsys.readouterr().err
    run("evaluate", two_models, "--weights", "lst", code=2)
    assert "did you mean 'last'" in capsys.readouterr().err

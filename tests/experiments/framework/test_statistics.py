from pathlib import Path

import pytest
import torch

from torchcaps.data import load
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.framework.statistics import (
    EpochErrors,
    common_error,
    epoch_at_error,
    errors_by_epoch,
    normalized_entropy,
)
from torchcaps.experiments.framework.study import Study
from torchcaps.models.weights import load_weights, read_tensors
from torchcaps.training import default_recipe

RECIPE = default_recipe("pooled_cnn", "digits").override(
    [
        "training.epochs=3",
        "model.options.stages=[[4], [8]]",
        "evaluation.extra_datasets=[]",
        "data.preprocess={}",
    ]
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    study = Study(tmp_path_factory.mktemp("study"), quick=True)
    study.train("cnn", RECIPE, keep_epochs=True)
    return study


def test_model_of_every_epoch_is_kept(study: Study) -> None:
    paths = study.epoch_paths("cnn")
    assert [path.name for path in paths] == [f"epoch-{epoch}.safetensors" for epoch in (1, 2, 3)]
    last, _ = read_tensors(study.out / "trained" / "cnn" / "last.safetensors")
    first, third = read_tensors(paths[0])[0], read_tensors(paths[-1])[0]
    assert all((last[name] == third[name]).all() for name in last)
    assert any((last[name] != first[name]).any() for name in last)


def test_errors_by_epoch_are_those_of_the_training(study: Study) -> None:
    images = load("digits", "test", size=16)
    epochs = errors_by_epoch(study, "cnn", images, images.select(images.labels == 0), Preprocess())
    for errors, path in zip(epochs, study.epoch_paths("cnn")):
        expected = load_weights(path)[1].facts["test"]["error"]
        assert errors.familiar == pytest.approx(100 * expected)
    assert [errors.epoch for errors in epochs] == [1, 2, 3]


def test_errors_by_epoch_are_cached(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    images = load("digits", "test", size=16)
    before = errors_by_epoch(study, "cnn", images, images)

    def fail(path: Path) -> None:
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr("torchcaps.experiments.framework.statistics.load_weights", fail)
    assert errors_by_epoch(study, "cnn", images, images) == before


def test_weaker_network_sets_the_common_error() -> None:
    weak = [EpochErrors(1, 50, 60), EpochErrors(2, 20, 40)]
    strong = [EpochErrors(1, 30, 50), EpochErrors(2, 19, 9), EpochErrors(3, 5, 8)]
    error = common_error([weak, strong])
    assert error == common_error([strong, weak]) == 20
    assert epoch_at_error(weak, error) is weak[-1]
    assert epoch_at_error(strong, error).epoch == 2


def test_no_epoch_paths_before_training(tmp_path: Path) -> None:
    assert Study(tmp_path, quick=True).epoch_paths("nothing") == []


def test_normalized_entropy_is_one_for_uniform_and_zero_for_hard_distributions() -> None:
    assert normalized_entropy(torch.full((3, 10), 0.1)) == pytest.approx(1)
    assert normalized_entropy(torch.eye(4)) == 0

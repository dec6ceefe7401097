from pathlib import Path

import pytest

from torchcaps.data import load
from torchcaps.data.preprocess import Preprocess
from torchcaps.experiments.workbench.matching import Moment, at_level, common_level, course
from torchcaps.experiments.workbench.study import Study
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
    made = Study(tmp_path_factory.mktemp("study"), quick=True)
    made.train("twin", RECIPE, keep_epochs=True)
    return made


def test_the_model_of_every_epoch_is_kept(study: Study) -> None:
    paths = study.epochs("twin")
    assert [path.name for path in paths] == [f"epoch-{epoch}.safetensors" for epoch in (1, 2, 3)]
    last, _ = read_tensors(study.out / "trained" / "twin" / "last.safetensors")
    first, kept = read_tensors(paths[0])[0], read_tensors(paths[-1])[0]
    assert all((last[name] == kept[name]).all() for name in last)
    assert any((last[name] != first[name]).any() for name in last)


def test_a_course_has_the_errors_that_training_saw(study: Study) -> None:
    images = load("digits", "test", size=16)
    moments = course(study, "twin", images, images.select(images.labels == 0), Preprocess())
    for moment, path in zip(moments, study.epochs("twin")):
        seen = load_weights(path)[1].facts["test"]["error"]
        assert moment.familiar == pytest.approx(100 * seen)
    assert [moment.epoch for moment in moments] == [1, 2, 3]


def test_a_course_is_not_measured_twice(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    images = load("digits", "test", size=16)
    before = course(study, "twin", images, images)

    def fail(path: Path) -> None:
        raise AssertionError(f"{path} was read again")

    monkeypatch.setattr("torchcaps.experiments.workbench.matching.load_weights", fail)
    assert course(study, "twin", images, images) == before


def test_the_weaker_network_sets_the_level_whichever_it_is() -> None:
    weak, strong = (
        [Moment(1, 50, 60), Moment(2, 20, 40)],
        [Moment(1, 30, 50), Moment(2, 19, 9), Moment(3, 5, 8)],
    )
    level = common_level([weak, strong])
    assert level == common_level([strong, weak]) == 20
    assert at_level(weak, level) is weak[-1]
    assert at_level(strong, level).epoch == 2


def test_without_epochs_kept_there_is_no_course(tmp_path: Path) -> None:
    assert Study(tmp_path, quick=True).epochs("nothing") == []

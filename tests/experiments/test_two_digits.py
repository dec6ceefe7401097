import json
from pathlib import Path

import pytest
import torch

from torchcaps import create_model
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.two_digits import (
    DYNAMIC,
    NETWORKS,
    POOLED,
    UNIFORM,
    base_recipe,
    load_test_images,
    measure,
)


@pytest.mark.parametrize("quick", [True, False])
def test_recipes_differ_only_in_the_network(tmp_path: Path, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    tables = [base_recipe(study).override(changes).to_table() for changes in NETWORKS.values()]
    assert len({json.dumps([table.pop("model")]) for table in tables}) == len(NETWORKS)
    assert len({json.dumps(table) for table in tables}) == 1


def test_capsules_and_cnn_have_about_as_many_parameters() -> None:
    capsules, cnn = (
        sum(each.numel() for each in create_model(name).parameters())
        for name in ("shared_capsnet", "pooled_cnn")
    )
    assert cnn == pytest.approx(capsules, rel=0.02)


def test_pairs_consist_of_test_digits(tmp_path: Path) -> None:
    single, pairs = load_test_images(Study(tmp_path, quick=True))
    known = {image.numpy().tobytes() for image in single.images[:, 0]}
    width = single.image_size[1]
    for half in (pairs.images[..., :width], pairs.images[..., -width:]):
        assert all(image.numpy().tobytes() in known for image in half[:50, 0])


def test_measurement_is_cached(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=True)
    model = create_model("pooled_cnn", image_size=16, stages=[[4], [4]]).eval()
    single, pairs = load_test_images(study)
    some = single.select(torch.arange(20)), pairs.select(torch.arange(20))
    first = measure(study, POOLED, model, *some)
    empty = ImageSet(single.images[:0], single.labels[:0], single.classes)
    assert measure(study, POOLED, model, empty, empty) == first


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("two-digits"), tmp_path, quick=True)
    assert result["status"] == "ended"
    numbers = result["numbers"]
    assert numbers[f"{DYNAMIC}.above_half"] > numbers[f"{POOLED}.above_half"] + 20
    assert result["verdicts"][0]["holds"]
    for name in (DYNAMIC, UNIFORM, POOLED):
        assert numbers[f"{name}.single"] > 90
    assert (tmp_path / "examples.png").is_file()
    assert "essay: capsules" in (tmp_path / "report.html").read_text(encoding="utf-8")

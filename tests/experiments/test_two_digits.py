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
    ON_PAIRS,
    PLACES,
    POOLED,
    UNIFORM,
    judge,
    load_test_images,
    make_recipe,
    measure,
)


@pytest.mark.parametrize("quick", [True, False])
def test_recipes_differ_only_in_the_network(tmp_path: Path, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    tables = [make_recipe(study, name).to_table() for name in NETWORKS]
    assert len({json.dumps([table.pop("model")]) for table in tables}) == len(NETWORKS)
    assert len({json.dumps(table) for table in tables}) == 1


def test_capsules_and_cnn_have_about_as_many_parameters() -> None:
    capsules, cnn = (
        sum(each.numel() for each in create_model(name).parameters())
        for name in ("shared_capsnet", "pooled_cnn")
    )
    assert cnn == pytest.approx(capsules, rel=0.02)


def test_the_ceiling_differs_in_its_images_alone(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=False)
    single, pairs = (make_recipe(study, name).to_table() for name in (POOLED, ON_PAIRS))
    assert (single["data"].pop("name"), pairs["data"].pop("name")) == ("mnist", "two_digits")
    assert single == pairs


@pytest.mark.parametrize(
    ("single", "pooled", "holds"),
    [(99.2, 40.0, True), (99.2, 85.0, False), (98.0, 40.0, None)],
)
def test_verdict_needs_a_lead_at_equal_single_accuracy(
    single: float, pooled: float, holds: bool | None
) -> None:
    numbers = {"gap": 0.5}
    for name, one, two in ((DYNAMIC, 99.3, 95.0), (UNIFORM, 99.3, 95.0), (POOLED, single, pooled)):
        numbers |= {f"{name}.single": one, f"{name}.both": two, f"{name}.above_half": two}
    assert judge(numbers)[0] is holds


def test_a_second_object_takes_nothing_from_the_first_with_maximum_pooling() -> None:
    torch.manual_seed(0)
    model = create_model("pooled_cnn", image_size=16, stages=[[4], [4]], pooling="max").eval()
    one, two = torch.rand(2, 5, 1, 16, 16)
    both = model(torch.cat([one, two], 3)).logits
    assert (both >= torch.maximum(model(one).logits, model(two).logits) - 1e-6).all()


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
    for name in (DYNAMIC, UNIFORM, POOLED, PLACES):
        assert numbers[f"{name}.single"] > 90
    assert (tmp_path / "examples.png").is_file()
    assert "essay: capsules" in (tmp_path / "report.html").read_text(encoding="utf-8")

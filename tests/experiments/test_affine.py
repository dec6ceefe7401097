from pathlib import Path

import pytest
import torch
from torch import nn

from torchcaps.experiments.affine import (
    DENSE,
    NETWORKS,
    POOLED,
    QUICK_NETWORKS,
    SHARED,
    STYLES,
    judge,
    load_test_images,
    make_recipe,
)
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.models import create_model


def test_moved_digits_are_not_transformed(tmp_path: Path) -> None:
    moved, transformed = load_test_images(Study(tmp_path, quick=True))
    assert moved.labels.equal(transformed.labels)
    assert not moved.metadata["rotation"].any()
    assert moved.metadata["scale_x"].eq(1).all()
    assert moved.metadata["shift_x"].unique().numel() > 5
    assert transformed.metadata["rotation"].abs().max() > 0.3
    # Moving an image by whole pixels does not change the sum of its pixels; scaling does.
    single = moved.images.flatten(1).float().sum(1).view(-1, 4)
    assert (single == single[:, :1]).all()


def test_another_seed_gives_other_test_images(tmp_path: Path) -> None:
    one, other = (load_test_images(Study(tmp_path, quick=True, seed=seed))[1] for seed in (0, 1))
    assert not torch.equal(one.images, other.images)


@pytest.mark.parametrize("quick", [True, False])
def test_all_networks_are_trained_equally(tmp_path: Path, quick: bool) -> None:
    recipes = [make_recipe(Study(tmp_path, quick=quick), name) for name in NETWORKS]
    for part in ("data", "optimizer", "schedule", "training", "stop", "seed"):
        assert len({repr(getattr(recipe, part)) for recipe in recipes}) == 1, part
    assert set(QUICK_NETWORKS) <= set(NETWORKS) == set(STYLES)


def test_cnns_have_the_convolutions_of_shared_capsules(tmp_path: Path) -> None:
    convolutions = {}
    for name in (SHARED, DENSE, POOLED):
        recipe = make_recipe(Study(tmp_path, quick=False), name)
        model = create_model(
            recipe.model.name, num_classes=10, in_channels=1, image_size=40, **recipe.model.options
        )
        convolutions[name] = [
            (each.weight.shape, each.stride) for each in model.modules() if isinstance(each, nn.Conv2d)
        ]
    assert convolutions[SHARED] == convolutions[DENSE] == convolutions[POOLED]


@pytest.mark.parametrize(
    ("shared", "dense", "pooled", "holds"),
    [
        ((99.2, 93.0), (99.3, 66.0), (99.2, 90.0), True),
        ((99.2, 93.0), (99.3, 66.0), (99.2, 94.0), None),  # as in the paper of 2021
        ((99.2, 60.0), (99.3, 66.0), (99.2, 94.0), False),
        ((98.0, 93.0), (99.3, 66.0), (99.2, 90.0), None),  # not equally good on moved digits
    ],
)
def test_verdict_names_both_cnns(shared: tuple, dense: tuple, pooled: tuple, holds: bool | None) -> None:
    numbers = {"digits": 10_000, "gap": 0.5}
    for name, (moved, affine) in ((SHARED, shared), (DENSE, dense), (POOLED, pooled)):
        numbers |= {f"{name}.moved": moved, f"{name}.affine": affine}
    answer, sentence = judge(numbers)
    assert answer is holds
    assert "dense layer" in sentence
    assert "average pooling" in sentence


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("affine"), tmp_path, quick=True)
    numbers = result["numbers"]
    assert result["status"] == "ended"
    for name in QUICK_NETWORKS:
        # From 81 to 95 after so short a training: the last bits differ between processors.
        assert numbers[f"{name}.moved"] > 60
        assert numbers[f"{name}.affine"] < numbers[f"{name}.moved"], "transformations were not trained on"
    # Which network is better is chance after so short a training.
    assert f"{numbers[f'{SHARED}.affine']:.1f} %" in result["verdicts"][0]["sentence"]
    for name in ("digits", "epochs"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert (tmp_path / "report.html").is_file()

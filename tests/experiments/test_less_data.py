from pathlib import Path

import pytest
import torch

from torchcaps.data import limit_images
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study, count_parameters
from torchcaps.experiments.less_data import CLAIM, NETWORKS, QUICK_SIZES, image_share, judge, load_images
from torchcaps.experiments.less_data.networks import (
    CAPSULES,
    CNNS,
    DENSE,
    PAPER,
    POOLED,
    UNIFORM,
    build,
    error_rate,
    fit,
)


def test_parts_are_disjoint_and_contained_in_each_other(tmp_path: Path) -> None:
    train, validation, test = load_images(Study(tmp_path, quick=True))
    assert len(train) + len(validation) == 1442
    assert len(test) == 355

    def rows(images: torch.Tensor) -> set[bytes]:
        return {image.numpy().tobytes() for image in images}

    assert not rows(train.images) & rows(validation.images)
    small, large = (limit_images(train, size) for size in QUICK_SIZES[:2])
    assert rows(small.images) <= rows(large.images)


def test_heads_have_as_many_parameters() -> None:
    counts = {name: count_parameters(build(name, 28)) for name in NETWORKS}
    without_decoder = counts[CAPSULES] - count_parameters(build(CAPSULES, 28).decoder)  # type: ignore[arg-type]
    assert counts[UNIFORM] == counts[CAPSULES]
    assert abs(counts[DENSE] / without_decoder - 1) < 0.02
    assert counts[POOLED] < counts[DENSE]
    assert abs(counts[PAPER] / counts[CAPSULES] - 1) < 0.1


@pytest.mark.parametrize("name", [CAPSULES, POOLED])
def test_model_is_that_of_the_best_validation(tmp_path: Path, name: str) -> None:
    train, validation, _ = load_images(Study(tmp_path, quick=True))
    some, few = train.select(torch.arange(40)), validation.select(torch.arange(60))
    fitted = fit(name, some, few, rates=(1e-3, 1e-2), steps=10, batch_size=8, seed=0)
    assert fitted.lr in (1e-3, 1e-2)
    assert 1 <= fitted.step <= 10
    assert error_rate(fitted.model, few) == pytest.approx(fitted.validation)


def test_share_of_images_follows_the_power_law() -> None:
    cnn = {size: 100 * size**-0.5 for size in (100, 1000)}
    same_with_a_tenth = {size: 100 * (10 * size) ** -0.5 for size in cnn}
    assert image_share(same_with_a_tenth, cnn) == pytest.approx(0.1, abs=1e-3)
    assert image_share(cnn, same_with_a_tenth) == pytest.approx(10, rel=1e-3)


@pytest.mark.parametrize("worst", [None, *CNNS])
def test_verdict_needs_every_cnn(worst: str | None) -> None:
    numbers = {f"share of images.{name}": 1.2 if name == worst else 0.4 for name in CNNS}
    for name in (CAPSULES, *CNNS):
        numbers |= {f"{name}.100": 20.0, f"{name}.1000": 5.0}
    assert judge(numbers)[0] is (worst is None)


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(CLAIM, tmp_path, quick=True)
    numbers = result["numbers"]
    for name in NETWORKS:
        assert numbers[f"{name}.{QUICK_SIZES[-1]}"] < numbers[f"{name}.{QUICK_SIZES[0]}"]
    assert (tmp_path / "errors.png").is_file()

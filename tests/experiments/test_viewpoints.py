import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from torchcaps.data import load
from torchcaps.data.datasets.norb import FAMILIAR
from torchcaps.data.imageset import ImageSet
from torchcaps.experiments import viewpoints
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.statistics import EpochErrors
from torchcaps.experiments.framework.study import Study, count_parameters
from torchcaps.experiments.listing import find_claim
from torchcaps.experiments.viewpoints import NETWORKS, PUBLISHED, make_recipe, quick_views
from torchcaps.experiments.viewpoints.figures import angle
from torchcaps.experiments.viewpoints.verdicts import CAPSULES, CNN, add_verdicts
from torchcaps.models import create_model


@pytest.mark.parametrize("viewpoint", PUBLISHED)
def test_quick_form_trains_on_familiar_and_tests_on_novel_views(viewpoint: str) -> None:
    options = {"viewpoint": viewpoint, "size": 4, **quick_views(viewpoint)}
    views = {}
    for split in ("train", "test_familiar", "test_novel"):
        views[split] = set(load("toys", split, **options).metadata[viewpoint].tolist())
    assert views["train"] == views["test_familiar"] == set(FAMILIAR[viewpoint])
    assert views["test_novel"]
    assert not views["test_novel"] & views["train"]


def test_familiar_angles_are_contiguous() -> None:
    assert sorted(angle("azimuth", code) for code in FAMILIAR["azimuth"]) == [-60, -40, -20, 0, 20, 40]
    assert sorted(angle("elevation", code) for code in FAMILIAR["elevation"]) == [30, 35, 40]


@pytest.mark.parametrize("quick", [True, False])
def test_recipes_differ_only_in_the_network(tmp_path: Path, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    recipes = {name: make_recipe(study, "toys", "azimuth", name) for name in NETWORKS}
    assert len({json.dumps(each.to_table()["data"]) for each in recipes.values()}) == 1
    assert len({json.dumps(each.to_table()["training"]) for each in recipes.values()}) == 1
    assert recipes[CAPSULES].model != recipes[CNN].model


@pytest.mark.parametrize(
    ("ratios", "familiar", "holds"),
    [
        ((0.7, 0.75), 10.0, True),
        ((0.7, 0.9), 10.0, None),
        ((0.95, 0.99), 10.0, False),
        ((1.1, 1.2), 10.0, False),
        ((0.5, 0.5), 20.0, None),  # not equally good on familiar views: no verdict
    ],
)
def test_verdict_follows_the_ratios(
    tmp_path: Path, ratios: tuple[float, float], familiar: float, holds: bool | None
) -> None:
    study = Study(tmp_path, quick=True)
    chosen = {
        viewpoint: {CAPSULES: EpochErrors(1, familiar, 40.0 * ratio), CNN: EpochErrors(1, 10.0, 40.0)}
        for viewpoint, ratio in zip(PUBLISHED, ratios)
    }
    add_verdicts(study, chosen)
    assert study.results()["verdicts"][0]["holds"] is holds


def test_table_has_errors_and_sizes_of_all_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small network in place of the trained ones, and two images in place of the toys."""
    model = create_model(
        "pooled_cnn", num_classes=5, in_channels=2, image_size=12, stages=((4,), (4,))
    ).eval()

    def load_images(study: Study, data: str, viewpoint: str, split: str) -> ImageSet:
        views = torch.tensor([0, 0]) if split == "test_familiar" else torch.tensor([8, 8])
        pixels = torch.zeros(2, 2, 12, 12, dtype=torch.uint8)
        return ImageSet(pixels, torch.tensor([0, 1]), tuple("abcde"), {viewpoint: views})

    errors = {name: [EpochErrors(1, 10.0, 20.0)] for name in (CAPSULES, CNN)}
    monkeypatch.setattr(viewpoints, "load_images", load_images)
    monkeypatch.setattr(viewpoints, "load_weights", lambda path: (model, SimpleNamespace(preprocess={})))
    monkeypatch.setattr(viewpoints, "train_networks", lambda study, data, viewpoint: errors)
    monkeypatch.setattr(viewpoints, "draw_views", lambda study: None)
    monkeypatch.setattr(Study, "epoch_paths", lambda study, name: [Path("epoch-1.safetensors")])
    study = Study(tmp_path, quick=True)
    viewpoints.run(study)
    (table,) = study.results()["tables"]
    assert table["columns"][-2:] == ["epochs", "parameters"]
    rows = {row[0]: row[1:] for row in table["rows"]}
    for viewpoint in PUBLISHED:
        for name in (CAPSULES, CNN):
            familiar, novel, epochs, parameters = rows[f"{viewpoint}: {name}"]
            assert familiar == novel >= 50, "at most one of two images of different classes is correct"
            assert (epochs, parameters) == (1, count_parameters(model))


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("viewpoints"), tmp_path, quick=True)
    assert result["status"] == "ended"
    numbers = result["numbers"]
    for viewpoint in PUBLISHED:
        for name in (CAPSULES, CNN):
            assert numbers[f"{viewpoint}.{name}.familiar"] < 60, "random guessing has 80"
        difference = numbers[f"{viewpoint}.{CAPSULES}.familiar"] - numbers[f"{viewpoint}.{CNN}.familiar"]
        assert abs(difference) < 8, "networks are compared where they are equally good on familiar views"
    for name in ("azimuths", "elevations", "epochs", "by_view"):
        assert (tmp_path / f"{name}.png").is_file()
        assert (tmp_path / f"{name}.svg").is_file()
    assert "novel" in (tmp_path / "report.html").read_text(encoding="utf-8")

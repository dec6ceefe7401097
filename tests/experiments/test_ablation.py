from pathlib import Path

import pytest
import torch

from torchcaps.experiments.ablation import (
    CNN,
    FIRST,
    FROM_TWIN,
    LOSSES,
    RISING,
    ROWS,
    TWIN,
    add_verdicts,
    dead_types,
    make_recipe,
)
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.models import create_model


def flatten(table: dict, prefix: str = "") -> dict[str, object]:
    entries: dict[str, object] = {}
    for key, value in table.items():
        entries |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return entries


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", [row for row in ROWS if row != FIRST])
def test_row_differs_from_the_first_only_in_its_changes(tmp_path: Path, name: str, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    first, row = (flatten(make_recipe(study, "toys", each).to_table()) for each in (FIRST, name))
    changed = {key for key in first.keys() | row.keys() if first.get(key) != row.get(key)}
    assert changed == {change.partition("=")[0] for change in ROWS[name][0]}


def test_cnn_is_trained_on_the_same_images_as_long(tmp_path: Path) -> None:
    study = Study(tmp_path, quick=False)
    capsules, cnn = (make_recipe(study, "toys", name) for name in (FIRST, CNN))
    assert (cnn.data, cnn.training, cnn.schedule) == (capsules.data, capsules.training, capsules.schedule)


@pytest.mark.parametrize("name", ROWS)
def test_all_parameters_of_every_row_have_gradients(tmp_path: Path, name: str) -> None:
    options = make_recipe(Study(tmp_path, quick=True), "toys", name).model.options
    model = create_model("matrix_capsnet_small", num_classes=10, in_channels=1, image_size=17, **options)
    model(torch.rand(2, 1, 17, 17)).logits.square().sum().backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.isfinite().all(), parameter_name


@pytest.mark.parametrize(
    ("errors", "holds"),
    [
        ({"spread loss": 4.0}, True),
        ({}, None),  # all rows are worse, and so is the spread loss
        ({"spread loss": 4.0, "1 iteration": 1.0}, None),
        # Vector poses count against their own twin.
        ({"spread loss": 4.0, TWIN: 30.0} | dict.fromkeys(FROM_TWIN, 20.0), None),
        ({"1 iteration": 11.0}, None),
        (dict.fromkeys(ROWS, 10.0), False),
    ],
)
def test_verdict_depends_on_the_rows_that_are_worse(
    tmp_path: Path, errors: dict[str, float], holds: bool | None
) -> None:
    study = Study(tmp_path, quick=True)
    results = {name: {"error": 20.0, "count": 400, "dead": 0.0} for name in ROWS}
    for name, error in {FIRST: 10.0, TWIN: 10.0, **errors}.items():
        results[name]["error"] = error
    add_verdicts(study, results)
    verdict = study.results()["verdicts"][0]
    assert verdict["holds"] is holds
    assert all(name in verdict["sentence"] for name in ROWS if name not in (FIRST, TWIN, RISING, *LOSSES))


def test_a_type_that_no_image_changes_is_dead() -> None:
    torch.manual_seed(0)
    model = create_model("matrix_capsnet_small", num_classes=5, in_channels=2, image_size=24, types=[4, 8, 8])
    images = torch.rand(3, 2, 24, 24)
    alive = dead_types(model, images)
    with torch.no_grad():
        # Far below the cost of any vote, so that these are never active.
        model.first.routing.beta_a[:4] = -1e4
    assert dead_types(model, images) == alive + 100 * 4 / 16


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("ablation"), tmp_path, quick=True)
    assert result["status"] == "ended"
    numbers = result["numbers"]
    assert {f"{name}.error" for name in [*ROWS, CNN]} <= set(numbers)
    assert numbers[f"{FIRST}.train_error"] < 50
    assert numbers[f"{FIRST}.error"] < 20, "random guessing has 90"
    assert numbers["1 iteration.error"] > numbers[f"{FIRST}.error"] + 5
    assert numbers["5 iterations.error"] > numbers[f"{FIRST}.error"] + 5
    assert (tmp_path / "rows.png").is_file()
    assert (tmp_path / "rows.svg").is_file()
    assert (tmp_path / "report.html").is_file()

from pathlib import Path

import pytest
import torch

from torchcaps.experiments.ablation import (
    CNN,
    FIRST,
    FROM_TWIN,
    LOSSES,
    ROWS,
    TWIN,
    add_verdicts,
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
    results = {name: {"error": 20.0, "count": 400} for name in ROWS}
    results |= {name: {"error": 10.0, "count": 400} for name in (FIRST, TWIN)}
    add_verdicts(study, results | {name: {"error": error, "count": 400} for name, error in errors.items()})
    verdict = study.results()["verdicts"][0]
    assert verdict["holds"] is holds
    assert all(name in verdict["sentence"] for name in ROWS if name not in (FIRST, TWIN, *LOSSES))


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

from pathlib import Path

import pytest
import torch

from torchcaps.experiments.ablation import BASE, FIRST, LOSSES, ROWS, judge, recipe
from torchcaps.experiments.framework.run import reproduce
from torchcaps.experiments.framework.study import Study
from torchcaps.experiments.listing import find_claim
from torchcaps.models import create_model


def flat(table: dict, where: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in table.items():
        found |= flat(value, f"{where}{key}.") if isinstance(value, dict) else {where + key: value}
    return found


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", [row for row in ROWS if row != FIRST])
def test_a_row_differs_from_the_first_in_what_it_says(tmp_path: Path, name: str, quick: bool) -> None:
    study = Study(tmp_path, quick=quick)
    first, row = (flat(recipe(study, "toys", each).to_table()) for each in (FIRST, name))
    changed = {key for key in first.keys() | row.keys() if first.get(key) != row.get(key)}
    assert changed == {change.partition("=")[0] for change in ROWS[name][0]}


@pytest.mark.parametrize("name", ROWS)
def test_the_network_of_every_row_has_slopes_in_all_its_weights(tmp_path: Path, name: str) -> None:
    options = recipe(Study(tmp_path, quick=True), "toys", name).model.options
    model = create_model("matrix_capsnet_small", num_classes=10, in_channels=1, image_size=17, **options)
    model(torch.rand(2, 1, 17, 17)).logits.square().sum().backward()
    for weight_name, weight in model.named_parameters():
        assert weight.grad is not None, weight_name
        assert weight.grad.isfinite().all(), weight_name


@pytest.mark.parametrize(
    ("errors", "holds"),
    [
        ({}, True),
        ({"1 iteration": 1.0}, None),
        ({"1 iteration": 11.0}, None),
        (dict.fromkeys(ROWS, 10.0), False),
    ],
)
def test_the_verdict_counts_rows_that_are_worse(
    tmp_path: Path, errors: dict[str, float], holds: bool | None
) -> None:
    study = Study(tmp_path, quick=True)
    found = {name: {"error": 20.0, "count": 400} for name in ROWS} | {FIRST: {"error": 10.0, "count": 400}}
    judge(study, found | {name: {"error": error, "count": 400} for name, error in errors.items()})
    verdict = study.results()["verdicts"][0]
    assert verdict["holds"] is holds
    assert all(name in verdict["sentence"] for name in ROWS if name not in (FIRST, *LOSSES))


@pytest.mark.slow
def test_quick_form(tmp_path: Path) -> None:
    result = reproduce(find_claim("ablation"), tmp_path, quick=True)
    assert result["status"] == "ended"
    numbers = result["numbers"]
    assert set(numbers) == {f"{name}.error" for name in [*ROWS, BASE]}
    assert numbers[f"{FIRST}.error"] < 20, "where chance is 90"
    assert numbers["1 iteration.error"] > numbers[f"{FIRST}.error"] + 5
    assert numbers["5 iterations.error"] > numbers[f"{FIRST}.error"] + 5
    assert (tmp_path / "rows.png").is_file()
    assert (tmp_path / "rows.svg").is_file()
    assert (tmp_path / "report.html").is_file()

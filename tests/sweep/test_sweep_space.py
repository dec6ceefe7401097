"""What `--grid` means: values, ranges, combinations and names of folders."""

import pytest

from support.tiny_runs import tiny_recipe
from torchcaps.sweep.space import Range, combinations, folder_name, parse_space, with_values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1,2", [1, 2]),
        ("a.b=1e-3, 0.1", [0.001, 0.1]),
        ("a.b=margin,spread", ["margin", "spread"]),
        ("a.b=true,false", [True, False]),
        ("a.b=[1, 2],[3]", [[1, 2], [3]]),
        ("a.b='x,y',z", ["x,y", "z"]),
        ("a.b={ c = 1, d = 2 },{}", [{"c": 1, "d": 2}, {}]),
        ("a.b=1", [1]),
    ],
)
def test_values_are_separated_by_commas_outside_of_brackets(text: str, values: list[object]) -> None:
    assert parse_space([text]) == {"a.b": values}


@pytest.mark.parametrize(
    ("grids", "message"),
    [
        (["lr"], "key=value,value"),
        (["lr="], "key=value,value"),
        (["=1,2"], "key=value,value"),
        (["lr=1,2", "lr=3"], "given twice"),
        (["lr=1,2,1"], "value 1 is given twice"),
        (["seed=1,2"], "--seeds"),
        (["data.val_fraction=0.1,0.2"], "same validation images"),
        (["lr=0.1..0.2"], "needs --search"),
    ],
)
def test_mistakes_are_named(grids: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_space(grids)


def test_ranges() -> None:
    space = parse_space(["a=1e-4..1e-1", "b=2..5", "c=0.5..0.9"], ranges=True)
    assert space == {"a": Range(1e-4, 1e-1), "b": Range(2, 5), "c": Range(0.5, 0.9)}
    assert [values.is_log for values in space.values()] == [True, False, False]  # type: ignore[union-attr]
    for text in ("a=5..2", "a=1..x"):
        if ".." in text and text.endswith("x"):
            assert parse_space([text], ranges=True) == {"a": ["1..x"]}
        else:
            with pytest.raises(ValueError, match="smaller to a larger"):
                parse_space([text], ranges=True)


def test_combinations_are_all_of_them() -> None:
    found = list(combinations({"a": [1, 2], "b": ["x", "y", "z"]}))
    assert len(found) == 6
    assert found[:2] == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}]


def test_folder_names_depend_on_the_values_alone() -> None:
    names = {folder_name(values) for values in combinations({"a.lr": [1, 1.0, "1", [1]], "b": [True, None]})}
    assert len(names) == 8
    assert folder_name({"a": 1, "b": 2})[-8:] == folder_name({"b": 2, "a": 1})[-8:]
    odd = folder_name({"data.x": "../../etc", "y": "ü" * 300})
    assert "/" not in odd
    assert len(odd) < 100


def test_values_are_put_into_the_recipe_and_checked() -> None:
    recipe = with_values(tiny_recipe(), {"optimizer.lr": 0.5, "model.options.hidden": [4, 4]})
    assert (recipe.optimizer.lr, recipe.model.options["hidden"]) == (0.5, [4, 4])
    with pytest.raises(ValueError, match="unknown recipe key"):
        with_values(tiny_recipe(), {"optimizer.lrr": 0.5})

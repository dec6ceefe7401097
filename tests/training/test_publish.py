from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from torchcaps._files import digest
from torchcaps.errors import RunError
from torchcaps.models import create_model, list_pretrained, pretrained
from torchcaps.models.pretrained import MAX_BYTES
from torchcaps.models.weights import load_weights, save_weights
from torchcaps.training import Recipe, default_recipe, load_recipe, train
from torchcaps.training.publish import record as record_module
from torchcaps.training.publish import ship as ship_module
from torchcaps.training.publish.page import COMPARISON, results_page
from torchcaps.training.publish.record import recipe_name, record
from torchcaps.training.publish.ship import check_shipped, keep_entry, ship

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run that has ended."""
    folder = tmp_path_factory.mktemp("runs") / "digits-pooled-cnn"
    recipe = default_recipe("pooled_cnn", "digits").override(
        ["training.epochs=2", "model.options.stages=[[8], [8]]", "evaluation.extra_datasets=[]"]
    )
    train(recipe, folder)
    return folder


@pytest.fixture
def known(run: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of the recipe that the run came from, as if it came with torchcaps."""
    monkeypatch.setattr(record_module, "list_recipes", lambda: {"digits-pooled-cnn": run / "recipe.toml"})
    return "digits-pooled-cnn"


@pytest.fixture
def copied(run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be tampered with."""
    return Path(shutil.copytree(run, tmp_path / "copied"))


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_result_is_what_the_run_wrote(run: Path, known: str, tmp_path: Path) -> None:
    written = json.loads(record(run, tmp_path).read_text())
    source = json.loads((run / "result.json").read_text())
    for name in ("metrics", "recipe", "seed", "epochs", "seconds", "sha256", "images_per_second", "ended_at"):
        assert written[name] == source[name]
    (session,) = json.loads((run / "environment.json").read_text())
    assert written["sessions"] == [{"started": session["started"], "git": session["git"]}]
    assert written["environment"]["command"] == f"torchcaps train {known}"
    assert str(run) not in json.dumps(written)
    page = results_page(tmp_path)
    assert f"{100 * source['metrics']['test']['error']:.2f}" in page
    assert f"`torchcaps train {known}`" in page


def test_a_run_of_an_unknown_recipe_has_the_commands_that_were_typed(run: Path, tmp_path: Path) -> None:
    written = json.loads(record(run, tmp_path).read_text())
    (session,) = json.loads((run / "environment.json").read_text())
    assert written["environment"]["command"] == shlex.join(["torchcaps", *session["command"][1:]])


def test_another_seed_has_its_own_file_and_command(copied: Path, known: str, tmp_path: Path) -> None:
    recipe = load_recipe(str(copied / "recipe.toml")).override(["seed=3"])
    (copied / "recipe.toml").write_text(recipe.to_toml())
    change(copied / "result.json", recipe=recipe.to_table(), seed=3)
    path = record(copied, tmp_path)
    assert path.name == f"{known}-seed3.json"
    assert json.loads(path.read_text())["environment"]["command"] == f"torchcaps train {known} --seed 3"


def test_seeds_are_averaged_and_other_experiments_are_not(run: Path, known: str, tmp_path: Path) -> None:
    first = json.loads(record(run, tmp_path).read_text())
    for seed, error in ((1, 0.2), (2, 0.4)):
        command = f"torchcaps train {known} --seed {seed}"
        metrics = {"test": {**first["metrics"]["test"], "error": error}}
        again = first | {"seed": seed, "metrics": metrics, "environment": {"command": command, "threads": 1}}
        (tmp_path / f"{known}-seed{seed}.json").write_text(json.dumps(again))
    change(tmp_path / f"{known}.json", metrics={"test": {"error": 0.3}, "test_crops": {"error": 0.25}})
    other = first | {"environment": {"command": "torchcaps train another", "threads": 1}}
    (tmp_path / "another.json").write_text(json.dumps(other))
    page = results_page(tmp_path)
    assert "| 30.00 ± 10.00 (3 seeds) | several crops 25.00 |" in page
    assert "`torchcaps train another`" in page
    shutil.copy(tmp_path / "another.json", tmp_path / "twice.json")
    with pytest.raises(ValueError, match="two results of the same seed"):
        results_page(tmp_path)


def test_a_comparison_is_not_the_result_of_a_recipe(tmp_path: Path) -> None:
    before = results_page(tmp_path)
    (tmp_path / "compare.json").write_text('{"networks": []}')
    assert results_page(tmp_path) == before


@pytest.mark.parametrize("text", ["[", "{}", '{"status": "budget"}', '{"status": "ended", "recipe": {}}'])
def test_a_file_that_is_not_a_result_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "strange.json").write_text(text)
    with pytest.raises(ValueError, match=r"strange\.json is not the result of a run that has ended"):
        results_page(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"metrics": {}},
        {"metrics": {"test": {"error": {}}}},
        {"metrics": 7},
        {"metrics": {"test": {"error": 0.1}, "more": {"accuracy": "high"}}},
        {"seconds": {}},
        {"num_params": {}},
        {"seed": {}},
        {"recipe": {"model": {"name": 3}, "data": {"name": "digits"}}},
        {"environment": {"command": 5}},
    ],
    ids=str,
)
def test_a_result_with_wrong_values_is_named(
    run: Path, known: str, tmp_path: Path, changes: dict[str, Any]
) -> None:
    change(record(run, tmp_path), **changes)
    with pytest.raises(ValueError, match=rf"{known}\.json is not the result of a run") as fault:
        results_page(tmp_path)
    assert fault.type is ValueError


def test_only_a_run_that_has_ended_gives_a_result(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not the folder of a run"):
        record(tmp_path / "nowhere", tmp_path / "results")
    change(copied / "result.json", status="budget")
    with pytest.raises(RunError, match="has not ended"):
        record(copied, tmp_path / "results")


def test_a_result_about_other_weights_is_refused(copied: Path, known: str, tmp_path: Path) -> None:
    model, card = load_weights(copied / "last.safetensors")
    with torch.no_grad():
        next(model.parameters()).add_(1)
    save_weights(copied / "last.safetensors", model, card)
    for taken in (lambda: record(copied, tmp_path / "results"), lambda: ship(copied, tmp_path)):
        with pytest.raises(RunError, match="is about other weights"):
            taken()


def test_a_result_about_another_recipe_is_refused(copied: Path, tmp_path: Path) -> None:
    recipe = load_recipe(str(copied / "recipe.toml")).override(["training.epochs=7"])
    (copied / "recipe.toml").write_text(recipe.to_toml())
    with pytest.raises(RunError, match="is about another recipe"):
        record(copied, tmp_path / "results")


@pytest.fixture
def package(run: Path, known: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of shipped weights that holds the run's."""
    folder = tmp_path / "package"
    folder.mkdir()
    ship(run, folder)
    monkeypatch.setattr(pretrained, "FOLDER", folder)
    return folder


def test_shipped_weights_are_halved_and_tested(run: Path, known: str, package: Path) -> None:
    (entry,) = list_pretrained()
    halved, card = load_weights(package / entry["file"])
    whole, _ = load_weights(run / "last.safetensors")
    for name, tensor in whole.state_dict().items():
        assert torch.equal(halved.state_dict()[name], tensor.half().float()), name
    assert card.classes == tuple("0123456789")
    assert entry["recipe"] == known
    assert entry["sample"]["count"] == 355
    assert entry["sample"]["right"] == round(entry["metrics"]["test"]["accuracy"] * 355)
    assert entry["sha256"] == digest(package / entry["file"])
    check_shipped("pooled_cnn", "digits")


def test_a_variant_is_shipped_beside_the_weights_of_the_same_data(
    run: Path, known: str, package: Path
) -> None:
    ship(run, package, variant="twin")
    assert [entry["data"] for entry in list_pretrained()] == ["digits", "digits-twin"]
    check_shipped("pooled_cnn", "digits-twin")
    with torch.no_grad():
        one, two = (create_model("pooled_cnn", pretrained=name) for name in ("digits", "digits-twin"))
    assert torch.equal(next(one.parameters()), next(two.parameters()))


@pytest.mark.parametrize(("name", "more"), [("right", 2), ("score", 0.01), ("count", 1)])
def test_the_check_of_shipped_weights_can_fail(package: Path, name: str, more: float) -> None:
    (entry,) = list_pretrained()
    entry["sample"][name] += more
    keep_entry(entry, package)
    with pytest.raises(RunError, match="the index says"):
        check_shipped("pooled_cnn", "digits")


def test_small_changes_of_the_weights_are_detected(package: Path) -> None:
    (entry,) = list_pretrained()
    model, card = load_weights(package / entry["file"])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(
                1 + 0.03 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
            )
    save_weights(package / entry["file"], model, card)
    keep_entry({**entry, "sha256": digest(package / entry["file"])}, package)
    with pytest.raises(RunError, match="the index says"):
        check_shipped("pooled_cnn", "digits")


def test_shipping_that_fails_changes_nothing(
    run: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name: path.read_bytes() for path in package.iterdir()}

    def fails(*_: Any) -> None:
        raise OSError("the disk of the data is gone")

    monkeypatch.setattr(ship_module, "evaluate_all", fails)
    with pytest.raises(OSError, match="is gone"):
        ship(run, package)
    assert {path.name: path.read_bytes() for path in package.iterdir()} == before


def test_only_known_recipes_are_shipped(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no recipe that comes with torchcaps makes this run"):
        ship(run, tmp_path)


def test_too_many_bytes_of_weights_are_refused(run: Path, known: str, tmp_path: Path) -> None:
    (tmp_path / "others.safetensors").write_bytes(bytes(MAX_BYTES))
    with pytest.raises(RunError, match="and 20 are allowed"):
        ship(run, tmp_path)


def test_the_page_is_made_from_the_results() -> None:
    page = ROOT / "RESULTS.md"
    if not page.is_file():
        pytest.skip("no results yet")
    assert page.read_text(encoding="utf-8") == results_page(ROOT / "results")


RECORDED = [path for path in sorted((ROOT / "results").glob("*.json")) if path.name != COMPARISON]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_every_result_has_the_recipe_of_its_name(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    name = path.stem.removesuffix(f"-seed{result['seed']}")
    assert recipe_name(Recipe.from_table(result["recipe"])) == name
    assert result["environment"]["command"].split()[:3] == ["torchcaps", "train", name]


@pytest.mark.parametrize("entry", list_pretrained(), ids=lambda entry: entry["file"])
def test_the_index_agrees_with_the_results(entry: dict[str, Any]) -> None:
    if entry["recipe"].startswith("python -m"):
        pytest.skip("trained in several stages by a command of its own, which has no record of a run")
    result = json.loads((ROOT / "results" / f"{entry['recipe']}.json").read_text(encoding="utf-8"))
    assert entry["trained"] == {name: result[name] for name in ship_module.TRAINED}
    assert entry["num_params"] == result["num_params"]
    assert entry["bytes"] == (pretrained.FOLDER / entry["file"]).stat().st_size
    data = result["recipe"]["data"]["name"]
    assert (entry["model"], entry["load"]["name"]) == (result["recipe"]["model"]["name"], data)
    assert entry["data"] in (data, entry["recipe"])  # variants have the name of their recipe
    assert entry["metrics"].keys() == result["metrics"].keys()
    for name, test in entry["metrics"].items():
        # Rounding to half precision may cost an image in a thousand, and no more.
        assert abs(test["error"] - result["metrics"][name]["error"]) < 1e-3, name
    # The sample is of the same images as the whole, so that a share far from the whole's is a lie of either.
    right, test = entry["sample"]["right"] / entry["sample"]["count"], entry["metrics"]["test"]
    doubt = 4 * (test["error"] * test["accuracy"] / entry["sample"]["count"]) ** 0.5 + 2e-3
    assert abs(right - test["accuracy"]) < doubt

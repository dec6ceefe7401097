from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from torchcaps.models import pretrained
from torchcaps.training import default_recipe, load_recipe, train
from torchcaps.training.errors import RunError
from torchcaps.training.results_page import results_page
from torchcaps.training.weights import load_weights
from torchcaps.training.zoo import record, ship

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run that has ended."""
    folder = tmp_path_factory.mktemp("runs") / "digits-pooled-cnn"
    recipe = default_recipe("pooled_cnn", "digits").override(
        ["training.epochs=2", "model.options.stages=[[8], [8]]", "evaluation.also=[]"]
    )
    train(recipe, folder)
    return folder


def test_a_result_is_what_the_run_wrote(run: Path, tmp_path: Path) -> None:
    written = json.loads(record(run, tmp_path).read_text())
    source = json.loads((run / "result.json").read_text())
    for name in ("metrics", "recipe", "seed", "epochs", "seconds", "sha256", "images_per_second"):
        assert written[name] == source[name]
    assert written["environment"]["command"] == "torchcaps train digits-pooled-cnn"
    page = results_page(tmp_path)
    assert f"{100 * source['metrics']['test']['error']:.2f}" in page
    assert "`torchcaps train digits-pooled-cnn`" in page


def test_a_run_that_has_not_ended_gives_no_result(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"status": "budget"}')
    with pytest.raises(RunError, match="has not ended"):
        record(tmp_path, tmp_path / "results")


def test_shipped_weights_are_halved_and_tested(run: Path, tmp_path: Path) -> None:
    entry = ship(run, tmp_path)
    halved, card = load_weights(tmp_path / entry["file"])
    whole, _ = load_weights(run / "last.safetensors")
    for name, tensor in whole.state_dict().items():
        assert torch.equal(halved.state_dict()[name], tensor.half().float()), name
    assert card.classes == tuple("0123456789")
    assert entry["sample"]["count"] == 355
    assert entry["sample"]["right"] == round(entry["metrics"]["test"]["accuracy"] * 355)
    assert entry["sha256"] == pretrained.digest(tmp_path / entry["file"], 0)


def test_the_page_is_made_from_the_results() -> None:
    page = ROOT / "RESULTS.md"
    if not page.is_file():
        pytest.skip("no results yet")
    assert page.read_text(encoding="utf-8") == results_page(ROOT / "results")


@pytest.mark.parametrize("path", sorted((ROOT / "results").glob("*.json")), ids=lambda path: path.stem)
def test_every_result_came_from_the_recipe_of_its_name_as_it_stands(path: Path) -> None:
    result = json.loads(path.read_text(encoding="utf-8"))
    recipe = load_recipe(path.stem.removesuffix(f"-seed{result['seed']}")).override(
        [f"seed={result['seed']}"]
    )
    assert result["recipe"] == json.loads(json.dumps(asdict(recipe)))

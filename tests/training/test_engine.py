import json
import signal
import time
from pathlib import Path

import pytest
import torch

from support.tiny_runs import records_of, tiny_recipe, weights_of
from torchcaps.losses import margin_loss
from torchcaps.models import create_model
from torchcaps.models.weights import read_tensors
from torchcaps.training import load_weights, train
from torchcaps.training.callbacks import Callback
from torchcaps.training.checkpoint import Position
from torchcaps.training.data import load_train
from torchcaps.training.engine import Engine
from torchcaps.training.recipe import Recipe
from torchcaps.training.recipe.defaults import default_recipe
from torchcaps.training.task import recipe_task


def test_learns_the_digits(tmp_path: Path) -> None:
    recipe = Recipe.from_table(
        {
            "model": {"name": "pooled_cnn", "options": {"stages": [[16], [32]]}},
            "data": {"name": "digits"},
            "optimizer": {"lr": 5e-3},
            "training": {"epochs": 8, "batch_size": 64},
        }
    )
    result = train(recipe, tmp_path)
    assert result["metrics"]["test"]["accuracy"] > 0.8
    assert json.loads((tmp_path / "result.json").read_text())["sha256"] == result["sha256"]


def test_the_run_holds_recipe_and_environment(tmp_path: Path) -> None:
    recipe = tiny_recipe("training.epochs=1")
    train(recipe, tmp_path)
    assert Recipe.from_file(tmp_path / "recipe.toml") == recipe
    (session,) = json.loads((tmp_path / "environment.json").read_text())
    assert session["torch"] == torch.__version__
    assert {"python", "torchcaps", "git", "command"} <= session.keys()
    assert list((tmp_path / "tensorboard").iterdir())


def test_weights_depend_on_the_seed_alone(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, seed in zip(folders, (1, 1, 2)):
        torch.rand(3)  # what happened before must not matter
        train(tiny_recipe("training.epochs=1", f"seed={seed}"), folder)
    first, again, other = map(weights_of, folders)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if name.endswith("weight"))


def test_the_averaged_weights_are_saved(tmp_path: Path) -> None:
    train(tiny_recipe("training.ema_decay=0.99"), tmp_path)
    tensors, _ = read_tensors(tmp_path / "state.safetensors")
    last = weights_of(tmp_path)
    names = list(dict(load_weights(tmp_path / "last.safetensors")[0].named_parameters()))
    for number, name in enumerate(names):
        assert torch.equal(last[name], tensors[f"average.{number}"])
        assert not torch.equal(last[name], tensors[f"model.{name}"])


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    train(tiny_recipe("training.epochs=1"), tmp_path)
    with pytest.raises(ValueError, match="--resume"):
        train(tiny_recipe("training.epochs=1"), tmp_path)
    with pytest.raises(ValueError, match=r"keeps its recipe, but model.options"):
        train(tiny_recipe("model.options.hidden=[8, 8]"), tmp_path, resume=True)


@pytest.mark.parametrize(
    ("fewer", "more"),
    [
        (("training.epochs=1",), ("training.epochs=2",)),
        # A cosine ends at 0: as many epochs again in a second round.
        (
            ("training.epochs=2", "schedule={name = 'cosine', cycles = 1}"),
            ("training.epochs=4", "schedule={name = 'cosine', cycles = 2}"),
        ),
        (
            ("training.epochs=2", "schedule={name = 'cosine', warmup_steps = 3}"),
            ("training.epochs=4", "schedule={name = 'cosine', warmup_steps = 3, cycles = 2}"),
        ),
    ],
)
def test_a_run_continues_with_more_epochs(
    tmp_path: Path, fewer: tuple[str, ...], more: tuple[str, ...]
) -> None:
    train(tiny_recipe(*fewer), tmp_path / "split")
    train(tiny_recipe(*more), tmp_path / "split", resume=True)
    train(tiny_recipe(*more), tmp_path / "whole")
    assert records_of(tmp_path / "split") == records_of(tmp_path / "whole")
    whole = weights_of(tmp_path / "whole")
    assert all(torch.equal(tensor, whole[name]) for name, tensor in weights_of(tmp_path / "split").items())


def test_resampled_images_are_new_each_epoch_and_repeated_by_a_resumed_run(tmp_path: Path) -> None:
    pairs = (
        "data={name = 'multimnist', resample_each_epoch = true, options = {source = 'digits', size = 8}}",
    )
    pairs += ("model.options.hidden=[8, 8]", "training.epochs=2")
    recipe = tiny_recipe(*pairs)
    drawn = [load_train(recipe.data, epoch, recipe.seed) for epoch in (0, 1, 1)]
    assert not torch.equal(drawn[0].images, drawn[1].images)
    assert torch.equal(drawn[1].images, drawn[2].images)

    class Impatient(Callback):
        def on_step_end(self, position: Position, totals: torch.Tensor) -> None:
            if (position.epoch, position.batch) == (1, 2):
                signal.raise_signal(signal.SIGTERM)

    stopped = train(recipe, tmp_path / "stopped", callbacks=[Impatient()])
    assert stopped["status"] == "interrupted"
    train(recipe, tmp_path / "stopped", resume=True)
    train(recipe, tmp_path / "whole")
    train(tiny_recipe(*pairs, "data.resample_each_epoch=false"), tmp_path / "same")
    assert records_of(tmp_path / "stopped") == records_of(tmp_path / "whole")
    first, second = (
        [record for record in records_of(tmp_path / name) if "train" in record] for name in ("whole", "same")
    )
    assert first[0] == second[0]
    assert first[1] != second[1]


def test_a_run_that_used_up_its_budget_can_be_resumed(tmp_path: Path) -> None:
    paused = train(tiny_recipe(), tmp_path / "paused", budget=0.0)
    assert paused["status"] == "budget"
    assert paused["step"] == 1
    assert train(tiny_recipe(), tmp_path / "paused", resume=True)["status"] == "ended"
    train(tiny_recipe(), tmp_path / "whole")
    assert records_of(tmp_path / "paused") == records_of(tmp_path / "whole")


def test_a_signal_stops_after_the_current_step(tmp_path: Path) -> None:
    class Impatient(Callback):
        def on_step_end(self, position: Position, totals: torch.Tensor) -> None:
            if position.step == 4:
                signal.raise_signal(signal.SIGTERM)

    result = train(tiny_recipe(), tmp_path, callbacks=[Impatient()])
    assert (result["status"], result["step"]) == ("interrupted", 4)
    assert read_tensors(tmp_path / "state.safetensors")[1]["step"] == 4


def test_patience_and_target_stop_early(tmp_path: Path) -> None:
    still = ("optimizer.lr=0.0", "training.epochs=9", "stop.patience=2")
    assert train(tiny_recipe(*still), tmp_path / "patience")["epochs"] == 3
    result = train(tiny_recipe("stop.target=0.0", "training.epochs=9"), tmp_path / "target")
    assert (result["epochs"], result["ended"]) == (1, "target")


def test_with_validation_the_best_model_is_reported(tmp_path: Path) -> None:
    result = train(tiny_recipe("data.val_fraction=0.25"), tmp_path)
    assert result["model"] == "best.safetensors"
    assert all("validation" in record and "test" not in record for record in records_of(tmp_path))


@pytest.mark.parametrize("setting", ["training.precision='bf16'", "optimizer.name='adamw'"])
def test_other_precision_and_optimizer(tmp_path: Path, setting: str) -> None:
    result = train(tiny_recipe("training.epochs=1", setting), tmp_path)
    assert 0 < result["metrics"]["test"]["loss"] < 10


def test_bf16_is_used_only_where_the_processor_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_recipe("training.epochs=1", "training.precision='bf16'")
    for able in (True, False):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": able})  # noqa: B023
        result = train(recipe, tmp_path / str(able))
        assert result["precision"] == ("bf16" if able else "fp32")


@pytest.mark.slow
def test_compiled_training_is_the_same(tmp_path: Path) -> None:
    plain, compiled = (
        train(tiny_recipe("training.ema_decay=0.0", f"training.compile={value}"), tmp_path / value)
        for value in ("false", "true")
    )
    assert plain["metrics"]["test"]["loss"] == pytest.approx(compiled["metrics"]["test"]["loss"], rel=1e-3)


@pytest.mark.slow
def test_the_engine_is_as_fast_as_a_bare_loop(tmp_path: Path) -> None:
    """Both take turns, step by step, and processor time is compared: what else runs then falls on both."""
    recipe = default_recipe("shared_capsnet", "digits")
    engine = Engine(recipe_task(recipe), tmp_path, save_every=1e9)
    model = create_model("shared_capsnet", image_size=16)
    optimizer = torch.optim.Adam(model.parameters())
    spent = {"bare": 0.0, "engine": 0.0}
    for epoch in range(4):
        engine.position.epoch, engine.position.batch = epoch, 0
        for batch in engine.batches.epoch(epoch):
            begun = time.process_time()
            optimizer.zero_grad()
            margin_loss(model(batch.images).scores, batch.labels, absent_weight=0.25).backward()
            optimizer.step()
            between = time.process_time()
            engine.update(batch)
            # The first epoch warms up.
            spent["bare"] += (between - begun) * bool(epoch)
            spent["engine"] += (time.process_time() - between) * bool(epoch)
    assert spent["bare"] / spent["engine"] >= 0.95, spent

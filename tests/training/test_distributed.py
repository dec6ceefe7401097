"""Many processes, many pieces: the gradient is that of the whole batch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from support.tiny_runs import child_environment, tiny_recipe, weights_of
from torchcaps.data.batches import Batch
from torchcaps.data.preprocess import Preprocess
from torchcaps.training import evaluate, load_weights, train
from torchcaps.training.data import load_split
from torchcaps.training.distributed import split_batch

# Plain descent: the change of the weights is the gradient. 1,081 images make batches of 540, 540 and 1, of
# which the last is nothing for the first of two processes.
SETTINGS = (
    "model.name=shared_capsnet",
    "model.options={stages = [[4], [8]]}",
    "loss={name = 'margin'}",
    "optimizer={name = 'sgd', lr = 0.5, momentum = 0.0}",
    "training={epochs = 2, batch_size = 540}",
    "data.val_fraction=0.2504",
)


def assert_same_weights(one: Path, other: Path) -> None:
    expected, got = weights_of(one), weights_of(other)
    for name, tensor in expected.items():
        torch.testing.assert_close(got[name], tensor, rtol=1e-4, atol=1e-6, msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    result = train(tiny_recipe(*SETTINGS), folder)
    assert result["step"] == 6
    return folder


def train_with_two_processes(folder: Path, *words: str) -> str:
    """Run `torchrun -m torchcaps train` in a folder; returns its output."""
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    finished = subprocess.run(
        [sys.executable, "-m", *torchrun, "-m", "torchcaps", "train", *words],
        env=child_environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_two_processes_have_the_gradient_of_one(whole: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(tiny_recipe(*SETTINGS, "training.grad_accum_steps=2").to_toml())
    output = train_with_two_processes(tmp_path, str(recipe), "--out", str(tmp_path / "two"))
    assert "2 × cpu" in output
    assert_same_weights(whole, tmp_path / "two")


@pytest.mark.slow
def test_all_processes_use_the_folder_of_the_first_beside_an_older_run(tmp_path: Path) -> None:
    """They once tested the weights of the older run, and result.json held a mixture."""
    recipe = tiny_recipe("training={epochs = 2, batch_size = 256}", "optimizer.lr=0.01")
    older = tmp_path / "runs" / "tiny"
    # Its weights are not trained: what they give differs from what training gives.
    train(recipe.override(["optimizer.lr=0.0", "training.epochs=1"]), older)
    (tmp_path / "tiny.toml").write_text(recipe.to_toml())
    before = {path.name: path.read_bytes() for path in older.iterdir() if path.is_file()}
    train_with_two_processes(tmp_path, "tiny.toml")
    newer = tmp_path / "runs" / "tiny-2"
    result = json.loads((newer / "result.json").read_text())
    model, card = load_weights(newer / result["model"])
    expected = evaluate(
        model, load_split(recipe.data, "test"), Preprocess.from_options(card.preprocess), loss=recipe.loss
    ).summary()
    assert result["metrics"]["test"] == pytest.approx(expected)
    assert {path.name: path.read_bytes() for path in older.iterdir() if path.is_file()} == before


def test_pieces_do_not_change_the_gradient(whole: Path, tmp_path: Path) -> None:
    train(tiny_recipe(*SETTINGS, "training.grad_accum_steps=7"), tmp_path)
    assert_same_weights(whole, tmp_path)


@pytest.mark.parametrize("sizes", [(5, 5), (1, 0), (3, 2, 2)])
@pytest.mark.parametrize("count", [1, 3])
def test_weights_of_pieces_make_a_mean(sizes: tuple[int, ...], count: int) -> None:
    """The average over processes of the weighted means of pieces is the mean of all."""
    values = torch.rand(sum(sizes), dtype=torch.float64)
    average = 0.0
    for part in values.split(list(sizes)):
        images = part.view(-1, 1, 1, 1)
        batch = Batch(images, torch.zeros(len(part)).long(), torch.arange(len(part)))
        done = list(split_batch(batch, count, len(values), len(sizes)))
        assert done, "each process must take part in the exchange"
        average += sum(piece.images.mean() * weight for piece, weight in done) / len(sizes)
    torch.testing.assert_close(average, values.mean())

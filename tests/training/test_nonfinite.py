from pathlib import Path

import pytest
import torch

from support.tiny_runs import tiny_recipe
from torchcaps.models.weights import read_tensors
from torchcaps.training import RunError, train
from torchcaps.training.callbacks import Stopper
from torchcaps.training.engine import Engine
from torchcaps.training.nonfinite import LateCheck
from torchcaps.training.task import recipe_task


class Faulty(Engine):
    """Makes the third step go wrong."""

    faulty_layer = ""

    def forward(self, part):  # type: ignore[no-untyped-def]
        layer = dict(self.model.named_modules())[self.faulty_layer]
        if self.position.step == 2:
            # A gradient of sqrt at 0: the output is finite, its slope is not.
            layer.register_forward_hook(lambda _m, _i, output: output + self.fault(output))
        return super().forward(part)

    def fault(self, output: torch.Tensor) -> torch.Tensor:
        return (output * 0).sqrt() if self.slope_only else output * float("inf")


@pytest.mark.parametrize(
    ("slope_only", "message"), [(False, "output of layer 'layers.6'"), (True, "gradient of")]
)
def test_a_loss_that_is_not_finite_is_reported_with_step_and_layer(
    tmp_path: Path, slope_only: bool, message: str
) -> None:
    engine = Faulty(recipe_task(tiny_recipe()), tmp_path, save_every=1e9)
    engine.faulty_layer, engine.slope_only = "layers.6", slope_only
    with pytest.raises(RunError, match=f"step 3: .*{message}"):
        engine.train(Stopper())
    tensors, facts = read_tensors(tmp_path / "failed.safetensors")
    assert facts["step"] == 3
    assert tensors["batch.images"].shape == (256, 1, 8, 8)
    assert all(torch.isfinite(tensor).all() for name, tensor in tensors.items() if name.startswith("model."))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_a_late_check_reports_the_same(tmp_path: Path, optimizer: str) -> None:
    """As on a GPU: the fault is read at the end of the epoch; the weights are those before it."""
    engines = {}
    for name in ("at once", "late"):
        recipe = tiny_recipe(f"optimizer.name={optimizer}")
        engine = Faulty(recipe_task(recipe), tmp_path / name, save_every=1e9)
        engine.faulty_layer, engine.slope_only = "layers.6", True
        if name == "late":
            engine.late_check = LateCheck(engine.optimizer, engine.accelerator.device)
        with pytest.raises(RunError, match=r"step 3: .*gradient of"):
            engine.train(Stopper())
        engines[name] = read_tensors(tmp_path / name / "failed.safetensors")
    (once, facts), (late, late_facts) = engines.values()
    assert facts["step"] == late_facts["step"] == 3
    for key, tensor in once.items():
        if not key.startswith("gradient."):
            assert torch.equal(late[key], tensor), key


def test_a_learning_rate_that_is_too_high_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not finite"):
        train(tiny_recipe("optimizer={name = 'sgd', lr = 1e30}"), tmp_path)

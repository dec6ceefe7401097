"""A step of the training engine does not wait for a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from torchcaps.data.batches import Batch
from torchcaps.models import create_model
from torchcaps.training.checkpoint import Position, new_totals
from torchcaps.training.engine import Engine
from torchcaps.training.nonfinite import LateCheck
from torchcaps.training.objective import Objective
from torchcaps.training.optim import EMA, make_optimizer
from torchcaps.training.recipe import Recipe

# Tensors without numbers: whatever would wait for the numbers of a GPU is an error.
DEVICE = "meta"


def engine_on_gpu(model: str, **loss: object) -> Engine:
    """An engine as `Engine.__init__` leaves it, with a model on a GPU that is not there."""
    table = {
        "model": {"name": model},
        "data": {"name": "mnist"},
        "loss": loss,
        "training": {"epochs": 2, "batch_size": 4, "ema_decay": 0.9, "grad_accum_steps": 2},
    }
    engine = Engine.__new__(Engine)
    engine.recipe = recipe = Recipe.from_table(table)
    engine.model = create_model(model, image_size=28).to(DEVICE)
    engine.accelerator = SimpleNamespace(
        num_processes=1,
        process_index=0,
        backward=lambda loss: loss.backward(),
        no_sync=lambda module: nullcontext(),
    )
    engine.wrapped = engine.objective = Objective(engine.model, recipe.loss, None)
    engine.parameters = list(engine.model.parameters())
    engine.optimizer = make_optimizer(recipe.optimizer, engine.parameters)
    # Optimizers are fused on a GPU, and not on this device; test_nonfinite.py has the fused ones.
    engine.late_check = LateCheck(SimpleNamespace(), torch.device(DEVICE))  # type: ignore[arg-type]
    engine.average = EMA(engine.model, recipe.training.ema_decay)
    engine.routings, engine.objects = [], None
    engine.totals, engine.position = new_totals(DEVICE), Position()
    batches = SimpleNamespace(batch_size=4, num_images=8)
    engine.batches = type("Batches", (SimpleNamespace,), {"__len__": lambda self: 2})(**vars(batches))
    return engine


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        ("capsnet_small", {"name": "margin", "reconstruction": 0.0005}),
        ("matrix_capsnet_small", {"name": "spread"}),
    ],
)
def test_a_training_step_does_not_wait(model: str, loss: dict[str, object]) -> None:
    engine = engine_on_gpu(model, **loss)
    images, labels = torch.rand(4, 1, 28, 28, device=DEVICE), torch.arange(4, device=DEVICE)
    for _ in range(2):
        engine.update(Batch(images, labels, labels))
    assert engine.position.step == 2

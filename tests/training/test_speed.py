"""The engine costs next to nothing beside the model."""

import time
from pathlib import Path

import pytest
import torch

from torchcaps.losses import margin_loss
from torchcaps.models import create_model
from torchcaps.training.engine import Engine
from torchcaps.training.recipe.defaults import default_recipe
from torchcaps.training.task import recipe_task


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

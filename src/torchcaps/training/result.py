from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from torchcaps._files import digest
from torchcaps.data.preprocess import Preprocess
from torchcaps.models.weights import read_tensors
from torchcaps.training.run import now
from torchcaps.training.splits import load_other

if TYPE_CHECKING:
    from torchcaps.training.engine import Engine


def final_result(engine: Engine, status: str) -> dict[str, Any]:
    """What a run came to: if it ended, the tests of its model; if it was stopped, where it stands.

    The model is the last one; with validation images it is the one that was best on them. A model chosen by
    its test accuracy would look better than it is.
    """
    position, recipe = engine.position, engine.recipe
    result: dict[str, Any] = {
        "status": status,
        "run": str(engine.run.path),
        "recipe": recipe.to_table(),
        "seed": recipe.seed,
        "precision": engine.precision,
        "num_params": sum(parameter.numel() for parameter in engine.parameters),
        "step": position.step,
        "epochs": position.epoch,
        "seconds": round(position.seconds, 1),
        "images_per_second": round(position.images / max(1e-9, position.seconds), 1),
    }
    if status != "ended":
        return result
    chosen = engine.run.best if recipe.data.val_fraction else engine.run.last
    # All processes test, each its share: each must have the weights.
    engine.accelerator.wait_for_everyone()
    tensors, _ = read_tensors(chosen)
    kept = {name: tensor.clone() for name, tensor in engine.model.state_dict().items()}
    engine.model.load_state_dict(tensors)
    metrics = {"test": engine.test(engine.data.test).summary()}
    if recipe.evaluation.crops > 1:
        metrics["test_crops"] = engine.test(engine.data.test, recipe.evaluation.crops).summary()
    for name in recipe.evaluation.extra_datasets:
        # Another set has other sizes, which a model for any size reads as they are.
        plain = Preprocess(standardize=engine.preprocess.standardize)
        metrics[name] = engine.test(load_other(recipe, name), preprocess=plain).summary()
    engine.model.load_state_dict(kept)
    result |= {"ended": position.ended, "model": chosen.name, "sha256": digest(chosen), "metrics": metrics}
    # The session's own, not one of now: its git state is that of the code that was loaded.
    return {
        **result,
        "ended_at": now(),
        "environment": engine.run.sessions()[-1],
        "threads": torch.get_num_threads(),
    }

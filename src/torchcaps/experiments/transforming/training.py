from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

from torchcaps.data.batches import mixed
from torchcaps.experiments.framework.storage import write_json
from torchcaps.experiments.framework.study import Study, StudyStopped
from torchcaps.experiments.transforming.pairs import MovedPair
from torchcaps.training.callbacks import Stopper
from torchcaps.training.checkpoint import Position, load_state, save_state
from torchcaps.training.optim import EMA, lr_factor, make_optimizer
from torchcaps.training.recipe import OptimizerPart, SchedulePart

SAVE_EVERY = 200
EMA_DECAY = 0.99


def train_on_pairs(
    study: Study,
    name: str,
    model: nn.Module,
    images: Tensor,
    make_pairs: Callable[[Tensor, Generator], MovedPair],
    *,
    steps: int,
    batch_size: int = 64,
    lr: float = 3e-3,
) -> None:
    """Train a network to draw the moved image by squared error, or continue, or load it if it was trained.

    `torchcaps.training.train` trains classifiers: it feeds images with labels, and measures accuracy on
    test images. This task has two inputs (an image and a change), an image as its target, new random pairs
    at every step and no accuracy, so its loop is a separate one. Optimizer, learning rate, moving average,
    checkpoint and stopping are those of `torchcaps.training`.

    Args:
        study: stores the network under `name`; its deadline applies.
        name: of the training run in the study.
        model: called as `model(images, change).images`; it ends in `eval` mode with the averaged weights.
        images: `[N, C, H, W]` in 0..1.
        make_pairs: makes a batch of pairs from images and a generator of random numbers.
        steps: number of updates.
        batch_size: images in one update.
        lr: learning rate of Adam; it decreases to 0 along a cosine.

    Raises:
        StudyStopped: there was no time to finish, or someone interrupted.
    """
    folder = study.training_folder(name)
    folder.mkdir(parents=True, exist_ok=True)
    state, result = folder / "state.safetensors", folder / "result.json"
    optimizer = make_optimizer(OptimizerPart(name="adam", lr=lr), list(model.parameters()))
    average = EMA(model, EMA_DECAY)
    position = load_state(state, model, optimizer, average, {}) if state.is_file() else Position()
    if position.step < steps:
        study.log(f"training {name}: {steps} updates")
    start, earlier_seconds = time.monotonic(), position.seconds
    budget = None if study.deadline is None else study.deadline - start
    with Stopper(budget) as stopper:
        while position.step < steps:
            generator = torch.Generator().manual_seed(mixed(study.seed, position.step))
            chosen = torch.randint(len(images), (batch_size,), generator=generator)
            pair = make_pairs(images[chosen], generator)
            for group in optimizer.param_groups:
                group["lr"] = lr * lr_factor(SchedulePart("cosine"), position.step, steps)
            # The sum over pixels, so that the learning rate does not depend on the size of an image.
            loss = (model(pair.before, pair.change).images - pair.after).square().sum() / batch_size
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            position.step += 1
            average.update(position.step)
            position.seconds = earlier_seconds + time.monotonic() - start
            reason = stopper.reason()
            if reason or position.step % SAVE_EVERY == 0 or position.step == steps:
                save_state(state, position, model, optimizer, average, {})
            if reason and position.step < steps:
                raise StudyStopped(f"stopped ({reason}) while training {name}", reason)
    write_json(result, {"status": "ended", "steps": steps, "seconds": position.seconds})
    with average.applied():
        weights = {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(weights)
    model.eval()

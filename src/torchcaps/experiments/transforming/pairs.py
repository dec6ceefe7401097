"""Pairs of one image in two places, with the change between them known, and networks that learn from them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from torchcaps._files import replaced_on_success
from torchcaps.data.batches import mixed
from torchcaps.experiments.framework.study import Study, StudyStopped
from torchcaps.training.checkpoint import Position, load_state, save_state
from torchcaps.training.optim import EMA, lr_factor
from torchcaps.training.recipe import SchedulePart

SAVE_EVERY = 200


class Moved(NamedTuple):
    """One image in two places.

    Attributes:
        before: `[B, C, H, W]`.
        after: `[B, C, H, W]`.
        change: what leads from the one to the other: (Δx, Δy) in pixels `[B, 2]`, or a matrix `[B, 3, 3]`
            on (x, y, 1), where x and y run from −1 to 1 over the image.
    """

    before: Tensor
    after: Tensor
    change: Tensor


def draw_shifts(images: Tensor, most: int, generator: Generator) -> Moved:
    """Both images shifted by whole pixels from −`most` to `most` in both directions, as in the 2011 paper."""
    first, second = (
        torch.randint(-most, most + 1, (len(images), 2), generator=generator).to(images.dtype)
        for _ in range(2)
    )
    return Moved(shifted(images, first), shifted(images, second), second - first)


def draw_turns(images: Tensor, most: float, most_shift: float, generator: Generator) -> Moved:
    """Both images turned by up to ±`most` radians and shifted by up to ±`most_shift` of half the image."""
    first, second = (
        placement(2 * torch.rand(len(images), 3, generator=generator) - 1, most, most_shift) for _ in range(2)
    )
    return Moved(warped(images, first), warped(images, second), second @ torch.linalg.inv(first))


def shifted(images: Tensor, shift: Tensor) -> Tensor:
    """Images shifted by (Δx, Δy) pixels `[B, 2]`, to the right and down; nothing comes in at the borders.

    >>> image = torch.zeros(1, 1, 3, 3)
    >>> image[0, 0, 0, 0] = 1
    >>> shifted(image, torch.tensor([[2.0, 1.0]]))[0, 0].round()
    tensor([[0., 0., 0.],
            [0., 0., 1.],
            [0., 0., 0.]])
    """
    matrix = torch.eye(3, dtype=images.dtype).repeat(len(images), 1, 1)
    matrix[:, :2, 2] = 2 * shift / torch.tensor([images.shape[3], images.shape[2]], dtype=images.dtype)
    return warped(images, matrix)


def placement(numbers: Tensor, most: float, most_shift: float) -> Tensor:
    """Matrices `[B, 3, 3]` of a turn and a shift, as `numbers` `[B, 3]` in −1..1 choose."""
    angle, (across, down) = most * numbers[:, 0], (most_shift * numbers[:, 1:]).unbind(1)
    zero, one = torch.zeros_like(angle), torch.ones_like(angle)
    rows = [angle.cos(), -angle.sin(), across, angle.sin(), angle.cos(), down, zero, zero, one]
    return torch.stack(rows, dim=1).view(-1, 3, 3)


def warped(images: Tensor, matrix: Tensor) -> Tensor:
    """Images whose points (x, y, 1) went to `matrix` `[B, 3, 3]` times themselves, bilinearly."""
    # What is seen at a place came from where the inverse says.
    back = torch.linalg.inv(matrix)[:, :2]
    grid = F.affine_grid(back, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def learn_to_move(
    study: Study,
    name: str,
    model: nn.Module,
    images: Tensor,
    draw: Callable[[Tensor, Generator], Moved],
    *,
    steps: int,
    batch_size: int = 64,
    lr: float = 3e-3,
) -> None:
    """Train a network to draw the moved image by squared error, or go on, or take it as trained before.

    Args:
        study: who asks; it keeps the network under `name`, and its budget is heeded.
        name: of the training inside the study.
        model: called as `model(images, change).images`; it ends with averaged weights, in `eval` mode.
        images: `[N, C, H, W]` in 0..1.
        draw: makes a batch of pairs from images and a generator.
        steps: updates.
        batch_size: images of one update.
        lr: of Adam, going to 0 along a cosine.
    """
    folder = study.out / "trained" / name
    folder.mkdir(parents=True, exist_ok=True)
    state, done = folder / "state.safetensors", folder / "result.json"
    optimizer = torch.optim.Adam(model.parameters(), lr)
    average = EMA(model, 0.99)
    position = load_state(state, model, optimizer, average, {}) if state.is_file() else Position()
    if not done.is_file():
        study.log(f"training {name}: {steps} updates")
    begun, earlier = time.monotonic(), position.seconds
    while position.step < steps:
        generator = torch.Generator().manual_seed(mixed(study.seed, position.step))
        chosen = torch.randint(len(images), (batch_size,), generator=generator)
        pair = draw(images[chosen], generator)
        for group in optimizer.param_groups:
            factor = lr_factor(SchedulePart("cosine"), position.step, steps)
            group["lr"] = lr * factor
        # The sum over pixels, so that the learning rate need not know the size of an image.
        loss = (model(pair.before, pair.change).images - pair.after).square().sum() / batch_size
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        position.step += 1
        average.update(position.step)
        position.seconds = earlier + time.monotonic() - begun
        out_of_time = study.deadline is not None and time.monotonic() >= study.deadline
        if out_of_time or position.step % SAVE_EVERY == 0 or position.step == steps:
            save_state(state, position, model, optimizer, average, {})
        if out_of_time and position.step < steps:
            raise StudyStopped(f"stopped (budget) while training {name}")
    with replaced_on_success(done) as temporary:
        temporary.write_text(json.dumps({"status": "ended", "steps": steps, "seconds": position.seconds}))
    with average.applied():
        weights = {key: value.clone() for key, value in model.state_dict().items()}
    model.load_state_dict(weights)
    model.eval()

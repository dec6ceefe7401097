"""A CNN beside `parts_capsnet`: the same convolutions, pretrained on the same parts, with average pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps.data.worlds.flat import SceneOptions, World, draw_world
from torchcaps.models import Model, PartsCapsNet, create_model
from torchcaps.models.weights import ModelCard

MODEL = "parts_cnn"
CNN_STEPS = 500
BATCH_SIZE = 32
LR = 3e-3
SIZE = 96
# Single wholes as large as in the lab, anywhere in the image and at all angles.
TEST = {"size": SIZE, "scale": [0.35, 0.6], "offset": [0.0, 0.4]}
SCENES = SceneOptions(size=SIZE, scale=(0.35, 0.6), offset=(0.0, 0.4))


def train_cnn(
    world: World,
    *,
    seed: int = 0,
    steps: int = CNN_STEPS,
    log: Callable[[str], None] | None = None,
) -> Model:
    """Train a `parts_cnn` to name the whole in an image; it starts from the convolutions of the capsules.

    Every step has new scenes of single wholes. Scrambled wholes are not among them, as they are not in the
    training of the capsules.

    Args:
        world: such as `SHAPES`.
        seed: of the scenes and the new layer.
        steps: of Adam, with a learning rate that falls as a cosine.
        log: gets a line every 50 steps.
    """
    torch.manual_seed(seed)
    model = create_model(MODEL, num_classes=len(world.wholes), in_channels=1, image_size=SIZE)
    source = create_model("parts_capsnet", pretrained=world.name)
    assert isinstance(source, PartsCapsNet)
    for name in ("first", "trunk"):
        getattr(model, name).load_state_dict(getattr(source.detector, name).state_dict())
    optimizer = torch.optim.Adam(model.parameters(), LR)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        images, target = draw_batch(world, seed, step)
        loss = F.cross_entropy(model.train()(images).logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if log and (step + 1) % 50 == 0:
            log(f"CNN: step {step + 1} of {steps}, loss {float(loss.detach()):.3f}")
    return model.eval()


def draw_batch(world: World, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Images in 0..1, and the type of the whole in each.

    >>> from torchcaps.data.worlds.shapes import SHAPES
    >>> images, target = draw_batch(SHAPES, 0, 0)
    >>> images.shape, target.shape
    (torch.Size([32, 1, 96, 96]), torch.Size([32]))
    """
    start = step * BATCH_SIZE
    scenes = draw_world(world, "single", BATCH_SIZE, seed=seed, start=start, options=SCENES)
    return scenes.images.float() / 255, scenes.labels


@torch.no_grad()
def measure_cnn(model: Model, world: World, *, count: int = 500, seed: int = 0) -> dict[str, float]:
    """Test scenes: single wholes named right, and scrambled ones that still get a score above one half."""
    single = draw_world(world, "single", count, seed=seed, split="test", options=SCENES)
    options = SceneOptions(size=SIZE, intact=0.0, scale=(0.4, 0.6))
    scrambled = draw_world(world, "scrambled", count, seed=seed, split="test", options=options)
    named = torch.cat([model(batch.float() / 255).scores.argmax(1) for batch in single.images.split(100)])
    fooled = torch.cat([model(batch.float() / 255).scores.amax(1) for batch in scrambled.images.split(100)])
    return {
        "single": float((named == single.labels).float().mean()),
        "scrambled above half": float((fooled > 0.5).float().mean()),
    }


def cnn_card(model: Model, world: World, command: str) -> ModelCard:
    """What must be known to use the weights."""
    facts: dict[str, Any] = {"data": world.name, "recipe": command}
    return ModelCard(
        MODEL, {}, model.num_classes, model.in_channels, model.image_size, world.whole.names, facts=facts
    )

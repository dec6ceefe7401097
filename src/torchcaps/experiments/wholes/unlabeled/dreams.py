"""Training a part detector on scenes that are drawn from learned templates, at poses chosen at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from torchcaps.data.worlds.flat import Scenes
from torchcaps.experiments.wholes.parts import part_loss
from torchcaps.experiments.wholes.unlabeled.discovery import Drawing
from torchcaps.experiments.wholes.unlabeled.rendering import draw_over
from torchcaps.models.part_detector import PartDetector
from torchcaps.poses.similarity import SimilarityPose

# Scales of parts are those found, times a factor between 1 / SCALE_RANGE and SCALE_RANGE.
SCALE_RANGE = 1.25
# Places that are tried for a part; the one with the least overlap is taken.
TRIES = 6


@dataclass(frozen=True, eq=False)
class Dreams:
    """Scenes that a model draws itself, with what `part_loss` needs to know about them.

    Attributes:
        images: float32 `[N, 1, size, size]`.
        part_type: int64 `[N, P]`.
        part_pose: `[N, P, 4]`.
        part_mask: bool `[N, P]`.
    """

    images: Tensor
    part_type: Tensor
    part_pose: Tensor
    part_mask: Tensor


@torch.no_grad()
def draw_dreams(
    templates: Tensor,
    drawing: Drawing,
    count: int,
    generator: torch.Generator,
    *,
    parts: int = 4,
    size: int = 64,
) -> Dreams:
    """Draw scenes of loose parts at all angles, with the sizes and brightness that were found in images.

    Half of the parts stand beside another one, as parts of wholes do.

    Args:
        templates: `[T, S, S]`.
        drawing: of real images; gives the ranges of scale and brightness of each kind.
        count: number of scenes N.
        generator: of all random numbers.
        parts: each scene has 1 to P parts.
        size: pixels along each side.
    """

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=generator)

    kinds = len(templates)
    kind = torch.randint(kinds, (count, parts), generator=generator)
    scale, brightness = torch.zeros(count, parts), torch.zeros(count, parts)
    for number in range(kinds):
        found = (drawing.kind == number) & (drawing.brightness > 0)
        mine = kind == number
        if not found.any():
            raise ValueError(f"template {number} is used in no image; learn fewer kinds of parts")
        some = torch.randint(int(found.sum()), (int(mine.sum()),), generator=generator)
        scale[mine] = SimilarityPose.scale(drawing.pose[found])[some]
        brightness[mine] = drawing.brightness[found][some]
    scale = (scale * SCALE_RANGE ** uniform(-1, 1, count, parts)).clamp(max=0.9)
    angle = uniform(-math.pi, math.pi, count, parts)
    place = torch.zeros(count, parts, 2)
    for part in range(parts):
        radius = scale[:, part, None, None]
        tried = (1 - radius) * uniform(-1, 1, count, TRIES, 2)
        if part:
            # Beside the part before: the distance of parts that touch, which depends on their sides.
            away = (radius[..., 0] + scale[:, part - 1, None]) * uniform(0.45, 0.9, count, TRIES // 2)
            direction = uniform(-math.pi, math.pi, count, TRIES // 2)
            step = torch.stack([direction.cos(), direction.sin()], -1) * away.unsqueeze(-1)
            beside = torch.rand(count, 1, 1, generator=generator) < 0.5
            near = torch.minimum(torch.maximum(place[:, part - 1, None] + step, radius - 1), 1 - radius)
            tried[:, : TRIES // 2] = torch.where(beside, near, tried[:, : TRIES // 2])
            tried[:, TRIES // 2 :] = torch.where(beside, near, tried[:, TRIES // 2 :])
            distance = torch.cdist(tried, place[:, :part])
            touching = 0.5 * (radius + scale[:, None, :part])
            overlap = (touching - distance).clamp(min=0).sum(-1)
        else:
            overlap = torch.zeros(count, TRIES)
        best = overlap.argmin(1)
        place[:, part] = tried[torch.arange(count), best]
    mask = torch.arange(parts) < torch.randint(1, parts + 1, (count, 1), generator=generator)
    pose = torch.cat([SimilarityPose.from_parts(angle, scale, angle, angle)[..., :2], place], -1)
    images = draw_over(templates, kind, pose, brightness * mask, size)
    return Dreams(images, kind, pose, mask)


def quarter_turns(dreams: Dreams) -> Dreams:
    """Each dream at four angles, 4·N in all: cheaper than drawing it four times."""
    turned = [dreams]
    for _ in range(3):
        last = turned[-1]
        a, b, x, y = last.part_pose.unbind(-1)
        pose = torch.stack([-b, a, -y, x], -1)
        turned.append(Dreams(last.images.rot90(1, (2, 3)), last.part_type, pose, last.part_mask))
    return Dreams(
        torch.cat([each.images for each in turned]),
        torch.cat([each.part_type for each in turned]),
        torch.cat([each.part_pose for each in turned]),
        torch.cat([each.part_mask for each in turned]),
    )


def dream_loss(detector: PartDetector, dreams: Dreams) -> Tensor:
    """`part_loss` on dreams, whose poses are known because they were drawn there."""
    # The loss reads nothing of Scenes but what Dreams has.
    return part_loss(detector(dreams.images), cast(Scenes, dreams))


def train_on_dreams(
    detector: PartDetector,
    templates: Tensor,
    drawing: Drawing,
    *,
    steps: int = 1200,
    batch_size: int = 32,
    lr: float = 4e-3,
    size: int = 64,
    seed: int = 0,
    log: Callable[[str], None] | None = None,
) -> None:
    """Train a detector on new dreams in each step, with a learning rate that rises and falls once.

    This is the sleep phase of the wake-sleep algorithm (Hinton, Dayan, Frey and Neal 1995): what draws the
    images teaches what reads them. The detector sees no image of the data.

    Args:
        detector: to train, in place.
        templates: `[T, S, S]`.
        drawing: of real images.
        steps: of Adam.
        batch_size: dreams per step, a multiple of 4: each is shown at four angles.
        lr: highest learning rate.
        size: pixels along each side of a dream.
        seed: of the dreams.
        log: gets a line every 100 steps.
    """
    generator = torch.Generator().manual_seed(seed)
    detector.train()
    optimizer = torch.optim.Adam(detector.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.15)
    for step in range(steps):
        dreams = quarter_turns(draw_dreams(templates, drawing, batch_size // 4, generator, size=size))
        loss = dream_loss(detector, dreams)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if log and step % 100 == 99:
            log(f"detector: step {step + 1} of {steps}, loss {float(loss.detach()):.3f}")

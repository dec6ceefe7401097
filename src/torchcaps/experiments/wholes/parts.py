"""Training a part detector on scenes of loose parts, and how well it finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps.data.worlds.flat import Scenes, SceneStream
from torchcaps.models.part_detector import STRIDE, PartDetector, PartMap, place_coordinates, propose_parts

POSE_WEIGHT = 5.0
# A place takes part in the loss of the poses if the center of the part is at most this many strides away.
POSE_RADIUS = 1.5
# Errors of poses above this, relative to the scale of the part, count linearly.
POSE_BETA = 0.05


def part_loss(found: PartMap, scenes: Scenes) -> Tensor:
    r"""Focal loss of the presences, and smooth L1 of the poses, both per part.

    The place nearest to the center of a part should be present. Near it, the loss of a place that should be
    absent is reduced by :math:`(1 - g)^4` with a Gaussian :math:`g` of its distance in strides, because a
    center between two places may be found at either (the heat map loss of Law and Deng 2018). Poses are
    learned at all places near a center, with errors relative to the scale of the part.

    Args:
        found: the detector's output for `scenes.images`.
        scenes: with N parts in all.
    """
    size = scenes.images.shape[-1]
    place = place_coordinates(size, size, like=found.pose)
    pose, mask = scenes.part_pose.to(found.pose), scenes.part_mask
    stride = 2 * STRIDE / size
    # [B, P, H', W']
    square = (pose[:, :, None, None, 2:] - place).square().sum(-1) / stride**2
    kind = F.one_hot(scenes.part_type, found.logits.shape[1]) * mask.unsqueeze(-1)
    nearest = square == square.amin((2, 3), keepdim=True)
    positive = torch.einsum("bpt,bphw->bthw", kind.to(pose), nearest.to(pose)).clamp(max=1)
    near = torch.where(kind.bool()[..., None, None], torch.exp(-square / 2).unsqueeze(2), 0.0).amax(1)
    count = mask.sum().clamp(min=1)
    presence = torch.sigmoid(found.logits)
    missed = positive * (1 - presence).square() * F.softplus(-found.logits)
    false = (1 - positive) * (1 - near) ** 4 * presence.square() * F.softplus(found.logits)
    # A place near two parts of one kind learns the pose of the nearer one.
    alike = (scenes.part_type.unsqueeze(1) == scenes.part_type.unsqueeze(2)) & mask.unsqueeze(1)
    nearer = torch.where(alike[..., None, None], square.unsqueeze(1), torch.inf).amin(2)
    mine = (square <= POSE_RADIUS**2) & (square <= nearer) & mask[..., None, None]
    # Poses at the few places near each part: [n, 4].
    batch, part, row, column = torch.nonzero(mine, as_tuple=True)
    true = pose[batch, part]
    scale = true[:, :2].norm(dim=-1, keepdim=True)
    error = (found.pose[batch, scenes.part_type[batch, part], row, column] - true) / scale
    weight = torch.exp(-square[batch, part, row, column])
    poses = F.smooth_l1_loss(error, torch.zeros_like(error), beta=POSE_BETA, reduction="none").sum(-1)
    return (missed + false).sum() / count + POSE_WEIGHT * (weight * poses).sum() / weight.sum()


def train_parts(
    detector: PartDetector,
    stream: SceneStream,
    *,
    lr: float = 3e-3,
    log: Callable[[str], None] | None = None,
) -> None:
    """Train a detector on one epoch of a stream, with a learning rate that rises and falls once.

    Args:
        detector: to train, in place.
        stream: scenes of kind `parts`.
        lr: highest learning rate of Adam.
        log: gets a line every 100 steps.
    """
    detector.train()
    optimizer = torch.optim.Adam(detector.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=len(stream), pct_start=0.15)
    for step, scenes in enumerate(stream.epoch(0)):
        loss = part_loss(detector(scenes.images.float() / 255), scenes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if log and step % 100 == 99:
            log(f"parts: step {step + 1} of {len(stream)}, loss {float(loss.detach()):.3f}")


class PartQuality(NamedTuple):
    """How well parts are found.

    Attributes:
        recall: share of true parts with a proposal of the same kind within a stride.
        precision: share of proposals that are such a true part.
        place: mean distance between the centers of a part and its proposal, in pixels.
        turn: mean error of (a, b), relative to the scale of the part: its angle in radians, or its scale.
    """

    recall: float
    precision: float
    place: float
    turn: float


@torch.no_grad()
def measure_parts(detector: PartDetector, scenes: Scenes, count: int = 16) -> PartQuality:
    """Compare the proposals with a presence above 1/2 with the true parts."""
    detector.eval()
    found = propose_parts(detector(scenes.images.float() / 255), count)
    true = scenes.part_pose.to(found.pose)
    size = scenes.images.shape[-1]
    distance = torch.cdist(true[..., 2:], found.pose[..., 2:]) * size / 2
    match = (scenes.part_type.unsqueeze(-1) == found.kind.unsqueeze(1)) & scenes.part_mask.unsqueeze(-1)
    present = found.activation > 0.5
    distance = distance.masked_fill(~(match & present.unsqueeze(1)), torch.inf)
    place, index = distance.min(-1)
    hit = place <= STRIDE
    pose = found.pose.gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
    turn = (pose - true)[..., :2].norm(dim=-1) / true[..., :2].norm(dim=-1)
    right = (distance <= STRIDE).any(1) & present
    return PartQuality(
        float(hit.sum() / scenes.part_mask.sum()),
        float(right.sum() / present.sum().clamp(min=1)),
        float(place[hit].mean()),
        float(turn[hit].mean()),
    )

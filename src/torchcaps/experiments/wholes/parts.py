"""Training a part detector on scenes of loose parts, and how well it finds them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps.data.worlds.flat import Scenes, SceneStream
from torchcaps.models.part_detector import STRIDE, PartDetector, PartMap, place_coordinates, propose_parts

POSE_WEIGHT = 5.0
# A place takes part in the loss of the poses if the center of the part is at most this many strides away.
POSE_RADIUS = 2.0
# Errors of poses above this, relative to the scale of the part, count linearly.
POSE_BETA = 0.05
# Places farther than this many rows or columns from a center are not near it.
REACH = 3
# A proposal counts as a true part if it is at most this many pixels away.
HIT = 4.0
# Compiling takes half a minute, and makes steps 1.5 times as fast on one core.
COMPILE_FROM = 1000


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
    height, width = place.shape[:2]
    batch, part = torch.nonzero(scenes.part_mask, as_tuple=True)
    kind, true = scenes.part_type[batch, part], scenes.part_pose[batch, part].to(found.pose)
    # The places around each part, [n, m]: nothing else of the map depends on it.
    stride = 2 * STRIDE / size
    middle_row, middle_column = (
        ((place[0, 0, 1] - true[:, 3]) / stride).round().long().clamp(0, height - 1),
        ((true[:, 2] - place[0, 0, 0]) / stride).round().long().clamp(0, width - 1),
    )
    steps = torch.cartesian_prod(*[torch.arange(-REACH, REACH + 1)] * 2)
    row, column = middle_row[:, None] + steps[:, 0], middle_column[:, None] + steps[:, 1]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    row, column = row.clamp(0, height - 1), column.clamp(0, width - 1)
    square = (true[:, None, 2:] - place[row, column]).square().sum(-1) / stride**2
    square = torch.where(inside, square, torch.inf)
    first = (batch * found.logits.shape[1] + kind) * height  # the first row of the map of each part
    index = (first[:, None] + row) * width + column
    # A place near two parts of one kind learns the pose of the nearer one.
    nearest = torch.full_like(found.logits, torch.inf).flatten()
    nearest = nearest.scatter_reduce(0, index.flatten(), square.flatten(), "amin")
    mine = (square == nearest[index]) & (square <= POSE_RADIUS**2)
    positive = torch.zeros_like(nearest)
    positive[(first + middle_row) * width + middle_column] = 1
    count = max(len(true), 1)
    logits = found.logits.flatten()
    presence = torch.sigmoid(logits)
    missed = positive * (1 - presence).square() * F.softplus(-logits)
    absent = (1 - positive) * (1 - torch.exp(-nearest / 2)) ** 4
    false = absent * presence.square() * F.softplus(logits)
    scale = true[:, None, :2].norm(dim=-1, keepdim=True)
    error = ((found.pose.flatten(0, 3)[index] - true[:, None]) / scale)[mine]
    weight = torch.exp(-square[mine] / 2)
    poses = F.smooth_l1_loss(error, torch.zeros_like(error), beta=POSE_BETA, reduction="none").sum(-1)
    total = weight.sum().clamp(min=1e-6)
    return (missed + false).sum() / count + POSE_WEIGHT * (weight * poses).sum() / total


def train_parts(
    detector: PartDetector,
    streams: SceneStream | Sequence[SceneStream],
    *,
    lr: float = 5e-3,
    log: Callable[[str], None] | None = None,
) -> None:
    """Train a detector on one epoch of a stream, with a learning rate that rises and falls once.

    Args:
        detector: to train, in place.
        streams: scenes of kind `parts`; or several streams of one length, of which each step takes a batch.
        lr: highest learning rate of Adam.
        log: gets a line every 100 steps.
    """
    streams = [streams] if isinstance(streams, SceneStream) else streams
    # A quarter faster on CPUs; torch's own types do not know this form of `to`.
    detector.train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    steps = len(streams[0])
    forward = torch.compile(detector) if steps >= COMPILE_FROM and has_compiler() else detector
    optimizer = torch.optim.Adam(detector.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.15)
    for step, batches in enumerate(zip(*(each.epoch(0) for each in streams)), 1):
        # All at once: in batches of one stream, batch normalization would learn to tell the streams apart.
        images = torch.cat([scenes.images for scenes in batches]).float() / 255
        found = forward(images.contiguous(memory_format=torch.channels_last))
        sizes = [len(scenes) for scenes in batches]
        each = [PartMap(*maps) for maps in zip(*(values.split(sizes) for values in found))]
        loss = torch.stack([part_loss(*pair) for pair in zip(each, batches)]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if log and step % 100 == 0:
            log(f"parts: step {step} of {steps}, loss {float(loss.detach()):.3f}")


def has_compiler() -> bool:
    """Whether there is the C++ compiler that `torch.compile` calls on a CPU."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None


class PartQuality(NamedTuple):
    """How well parts are found.

    Attributes:
        recall: share of true parts with a proposal of the same kind within 4 pixels.
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
    hit = place <= HIT
    pose = found.pose.gather(1, index.unsqueeze(-1).expand(-1, -1, 4))
    turn = (pose - true)[..., :2].norm(dim=-1) / true[..., :2].norm(dim=-1)
    right = (distance <= HIT).any(1) & present
    return PartQuality(
        float(hit.sum() / scenes.part_mask.sum()),
        float(right.sum() / present.sum().clamp(min=1)),
        float(place[hit].mean()),
        float(turn[hit].mean()),
    )

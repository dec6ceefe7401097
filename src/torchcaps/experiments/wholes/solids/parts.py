"""Training a detector and a reader on stereo pairs of loose solids, and how well they find them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps.capsules import Capsules
from torchcaps.data.worlds.solids import PARTS, SolidScenes
from torchcaps.models.solid_detector import (
    STRIDE,
    SolidDetector,
    SolidMap,
    line_of_sight,
    map_places,
    read_parts,
    views,
    with_rotation,
)
from torchcaps.models.solid_reader import SolidReader, cut_windows

# A place takes part in the loss of the poses if the center of the part is at most this many strides away.
POSE_RADIUS = 1.5
# Parts that fewer rays of both cameras reach (four for each pixel) are not in the loss: they are hidden.
MIN_SEEN = 60
AXES_WEIGHT, VIEW_WEIGHT = 2.0, 1.0
# Standard deviations by which places are moved while a reader learns: towards the camera, right, up.
MOVES = (0.15, 0.05, 0.05)


def solid_loss(found: SolidMap, scenes: SolidScenes) -> Tensor:
    """Focal loss of the presences, and squared errors of the poses, both per part.

    The squared error makes the detector give the expected direction of each axis: a short one where the mark
    is hidden.

    Args:
        found: the detector's output for `scenes.images`.
        scenes: with their true parts.
    """
    batch, part = torch.nonzero(visible_parts(scenes), as_tuple=True)
    kind, pose = scenes.part_type[batch, part], scenes.part_pose[batch, part].to(found.axes)
    position, scale = pose[:, :3, 3], pose[:, :3, 0].norm(dim=-1)
    size = scenes.images.shape[-1]
    place = map_places(size, size, like=pose).flatten(0, 1)  # [M, 2]
    view = views(position)
    square = (view[:, None, :2] - place).square().sum(-1) * (size / (2 * STRIDE)) ** 2  # [n, M], in strides
    # Places near two parts of one kind belong to the nearer one.
    places = len(place)
    index = (batch * found.logits.shape[1] + kind).unsqueeze(1) * places + torch.arange(places)
    nearest = torch.full((found.logits.numel(),), torch.inf, dtype=square.dtype)
    nearest = nearest.scatter_reduce(0, index.flatten(), square.flatten(), "amin")
    mine = (square == nearest[index]) & (square <= POSE_RADIUS**2)
    positive = torch.zeros_like(nearest)
    positive[index.gather(1, square.argmin(1, keepdim=True)).squeeze(1)] = 1
    count = max(len(batch), 1)
    logits = found.logits.flatten()
    presence = torch.sigmoid(logits)
    missed = positive * (1 - presence).square() * F.softplus(-logits)
    false = (1 - positive) * (1 - torch.exp(-nearest / 2)) ** 4 * presence.square() * F.softplus(logits)
    weight = torch.exp(-square / 2)[mine]
    total = weight.sum().clamp(min=1e-6)
    axes = _axes_in_sight(pose)
    owner, chosen = mine.nonzero()[:, 0], index[mine]
    axes_error = (found.axes.flatten(0, 3)[chosen] - axes[owner]).square().sum(-1)
    view_error = F.smooth_l1_loss(
        found.view.flatten(0, 3)[chosen], view[owner], beta=0.05, reduction="none"
    ).sum(-1)
    scale_error = (found.log_scale.flatten()[chosen] - scale.log()[owner]).square()
    poses = AXES_WEIGHT * axes_error + VIEW_WEIGHT * (5 * view_error + scale_error)
    return (missed + false).sum() / count + (weight * poses).sum() / total


def visible_parts(scenes: SolidScenes) -> Tensor:
    """Which parts can be seen, bool `[N, P]`."""
    return scenes.part_mask & (scenes.part_seen.sum(-1) >= MIN_SEEN)


def train_solid_parts(
    detector: SolidDetector,
    scenes: SolidScenes,
    *,
    steps: int,
    batch_size: int = 32,
    lr: float = 4e-3,
    seed: int = 0,
    log: Callable[[str], None] | None = None,
) -> None:
    """Train a detector on scenes of loose parts, with a learning rate that rises and falls once.

    Args:
        detector: to train, in place.
        scenes: of kind `parts`, all in memory.
        steps: of Adam.
        batch_size: scenes per step.
        lr: highest learning rate.
        seed: of the choice of batches.
        log: gets a line every 100 steps.
    """
    detector.train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(detector.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.15)
    order = torch.empty(0, dtype=torch.int64)
    for step in range(1, steps + 1):
        if len(order) < batch_size:
            order = torch.randperm(len(scenes), generator=generator)
        batch, order = scenes[order[:batch_size]], order[batch_size:]
        images = (batch.images.float() / 255).contiguous(memory_format=torch.channels_last)
        loss = solid_loss(detector(images), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if log and step % 100 == 0:
            log(f"parts: step {step} of {steps}, loss {float(loss.detach()):.3f}")
    detector.eval()


def train_reader(
    reader: SolidReader,
    scenes: SolidScenes,
    *,
    steps: int,
    batch_size: int = 128,
    lr: float = 3e-3,
    seed: int = 0,
    log: Callable[[str], None] | None = None,
) -> None:
    """Train a reader on windows around the true places of loose parts, moved as the detector errs.

    Args:
        reader: to train, in place.
        scenes: of kind `parts`, all in memory.
        steps: of Adam, with a learning rate that rises and falls once.
        batch_size: parts per step.
        lr: highest learning rate.
        seed: of the choice of batches, and of the moves.
        log: gets a line every 500 steps.
    """
    batch, part = visible_parts(scenes).nonzero(as_tuple=True)
    kind, pose = scenes.part_type[batch, part], scenes.part_pose[batch, part].float()
    position = pose[:, :3, 3]
    axes = _axes_in_sight(pose)
    reader.train()
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(reader.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.15)
    for step in range(1, steps + 1):
        chosen = torch.randint(len(kind), (batch_size,), generator=generator)
        moved = position[chosen] + torch.randn(batch_size, 3, generator=generator) * torch.tensor(MOVES)
        used, index = batch[chosen].unique(return_inverse=True)
        windows = cut_windows(scenes.images[used], index, moved).float() / 255
        loss = (reader(windows, kind[chosen]) - axes[chosen]).square().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if log and step % 500 == 0:
            log(f"rotations: step {step} of {steps}, loss {float(loss.detach()):.3f}")
    reader.eval()


def _axes_in_sight(pose: Tensor) -> Tensor:
    """The z axis and x axis of poses `[M, 4, 4]` as seen along the line of sight, `[M, 6]`."""
    scale = pose[:, :3, 0].norm(dim=-1)
    rotation = line_of_sight(pose[:, :3, 3]).mT @ pose[:, :3, :3] / scale[:, None, None]
    return torch.cat([rotation[..., 2], rotation[..., 0]], -1)


@torch.no_grad()
def find_solids(
    detector: SolidDetector, reader: SolidReader, images: Tensor, batch_size: int = 200
) -> Capsules:
    """The parts of many images uint8 `[N, 2, H, W]`, a batch at a time: capsules `[N, kinds]`.

    The detector says where the part of each kind is and how large, the reader how it is turned. The
    activation is the presence times the length of the reader's shorter axis: where an axis is uncertain, its
    expected direction is short, and a part whose rotation is not known should not vote.
    """
    detector.eval()
    reader.eval()
    batches = []
    for batch in images.split(batch_size):
        pixels = batch.float() / 255
        rough, presence = read_parts(detector(pixels))
        count, kinds = presence.shape
        pose = rough.unflatten(-1, (4, 4)).flatten(0, 1)
        index = torch.arange(count).repeat_interleave(kinds)
        axes = reader(cut_windows(pixels, index, pose[:, :3, 3]), torch.arange(kinds).repeat(count))
        pose = with_rotation(pose, axes).unflatten(0, (count, kinds)).flatten(-2)
        certain = torch.minimum(axes[:, :3].norm(dim=-1), axes[:, 3:].norm(dim=-1)).clamp(max=1)
        batches.append((pose, presence * certain.unflatten(0, (count, kinds))))
    return Capsules(*(torch.cat(values) for values in zip(*batches)))


class SolidQuality(NamedTuple):
    """How well single parts of each kind are found, each entry `[kinds]`.

    Attributes:
        turn: median angle between the true and the found rotation, in degrees.
        turned: share of parts that are found more than 30° away.
        place: median distance across the line of sight, in units.
        depth: median distance along it.
        activation: mean activation of kinds that are there.
        absent: mean activation of kinds that are not; 0 if all scenes have it.
    """

    turn: Tensor
    turned: Tensor
    place: Tensor
    depth: Tensor
    activation: Tensor
    absent: Tensor


def turn_error(found: Tensor, true: Tensor) -> Tensor:
    """Angle in degrees between the rotations of poses `[..., 4, 4]`.

    >>> turn_error(torch.eye(4), torch.diag(torch.tensor([-2.0, -2.0, 2.0, 1.0])))
    tensor(180.)
    """
    one, other = (F.normalize(each[..., :3, :3], dim=-2) for each in (found, true))
    return torch.rad2deg(torch.arccos((((one * other).sum((-1, -2)) - 1) / 2).clamp(-1, 1)))


def match_parts(scenes: SolidScenes) -> tuple[Tensor, Tensor]:
    """The true pose of each kind, `[N, kinds, 4, 4]`, and whether it is there and visible, bool `[N, kinds]`.

    Of several parts of a kind, the last one.
    """
    count = len(scenes)
    pose = torch.eye(4, dtype=torch.float64).expand(count, len(PARTS), 4, 4).clone()
    there = torch.zeros(count, len(PARTS), dtype=torch.bool)
    scene, part = visible_parts(scenes).nonzero(as_tuple=True)
    kind = scenes.part_type[scene, part]
    pose[scene, kind] = scenes.part_pose[scene, part]
    there[scene, kind] = True
    return pose.float(), there


def measure_solid_parts(found: Capsules, scenes: SolidScenes) -> SolidQuality:
    """Compare found parts with the true ones, in scenes with at most one part of each kind."""
    true, there = match_parts(scenes)
    pose = found.pose.unflatten(-1, (4, 4))
    turn = turn_error(pose, true)
    apart = (pose - true)[..., :3, 3].abs()
    rows = []
    for kind in range(len(PARTS)):
        mine = there[:, kind]
        rows.append(
            torch.stack(
                [
                    turn[mine, kind].median(),
                    (turn[mine, kind] > 30).float().mean(),
                    apart[mine, kind, 1:].norm(dim=-1).median(),
                    apart[mine, kind, 0].median(),
                    found.activation[mine, kind].mean(),
                    found.activation[~mine, kind].mean().nan_to_num(),
                ]
            )
        )
    return SolidQuality(*torch.stack(rows, 1))

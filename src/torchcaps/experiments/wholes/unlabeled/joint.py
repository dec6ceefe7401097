"""Training detector, relations and templates together, by class labels and by drawing from wholes' poses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps.experiments.wholes.training import whole_loss
from torchcaps.experiments.wholes.unlabeled.discovery import Drawing
from torchcaps.experiments.wholes.unlabeled.dreams import draw_dreams, dream_loss, quarter_turns
from torchcaps.experiments.wholes.unlabeled.rendering import place_templates
from torchcaps.layers import ConstellationCaps
from torchcaps.models import PartsCapsNet
from torchcaps.poses.similarity import SimilarityPose

# Weights of the squared error of the drawn images, relative to their squared brightness, and of dreams.
DRAWING_WEIGHT = 2.0
DREAM_WEIGHT = 0.5
# Added to the diagonal when brightness is solved for: two slots at one place share it.
_RIDGE = 0.5
_BRIGHTEST = 1.5


class WholeDrawing(NamedTuple):
    """Images that were drawn from poses of wholes.

    Attributes:
        images: `[B, 1, H, W]`.
        pose: of the part in each slot, `[B, S, 4]`.
        brightness: of each slot, `[B, S]`.
    """

    images: Tensor
    pose: Tensor
    brightness: Tensor


def slot_poses(layer: ConstellationCaps, kind: Tensor, pose: Tensor) -> Tensor:
    """Where the parts of wholes are: pose · W⁻¹ for each slot, `[B, T·R, 4]`.

    Args:
        layer: has the relations W.
        kind: types of the wholes, `[B]`.
        pose: of the wholes, `[B, 4]`.
    """
    relation = layer.weight[:, kind].transpose(0, 1).flatten(1, 2)
    return SimilarityPose().move(SimilarityPose.inverse(relation), pose.unsqueeze(1))


def draw_wholes(
    layer: ConstellationCaps, templates: Tensor, kind: Tensor, pose: Tensor, images: Tensor
) -> WholeDrawing:
    """Draw one whole per image from its type and pose: a template in each slot that is filled.

    A whole has no brightness: that of each part is the one that fits `images` best, by least squares. The
    gradient of the squared error does not depend on how that optimum moves.

    Args:
        layer: has the relations, and how likely each slot is filled.
        templates: `[T, S, S]`, one for each kind of part.
        kind: types `[B]`.
        pose: poses `[B, 4]`.
        images: `[B, 1, H, W]`, what should be drawn.
    """
    poses = slot_poses(layer, kind, pose)
    filled = torch.sigmoid(layer.filled_logit[:, kind]).transpose(0, 1).flatten(1, 2)
    slots = torch.arange(layer.kinds, device=kind.device).repeat_interleave(layer.roles)
    drawn = place_templates(templates, slots.expand(len(kind), -1), poses, images.shape[-1])
    drawn = drawn * filled[..., None, None]
    with torch.no_grad():
        flat = drawn.flatten(2)
        square = flat @ flat.mT + _RIDGE * torch.eye(flat.shape[1], dtype=flat.dtype, device=flat.device)
        light = torch.linalg.solve(square, flat @ images.flatten(1).unsqueeze(-1)).squeeze(-1)
        light = light.clamp(0, _BRIGHTEST)
    return WholeDrawing((drawn * light[..., None, None]).sum(1, keepdim=True), poses, light * filled)


def drawing_error(drawn: Tensor, images: Tensor) -> Tensor:
    """Squared error of each image relative to its squared brightness, `[B]`."""
    energy = images.square().sum((1, 2, 3)).clamp(min=1.0)
    return (drawn - images).square().sum((1, 2, 3)) / energy


def best_pose(model: PartsCapsNet, images: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, types and poses of the best proposal for each image.

    Args:
        model: finds parts and wholes.
        images: `[B, 1, H, W]`.
        target: the type to look for, `[B]`; without it, the one with the highest logit.
    """
    proposals = model.wholes(model.find_parts(images))
    kind = proposals.logits.argmax(1) if target is None else target
    sample = torch.arange(len(kind), device=kind.device)
    best = proposals.score[sample, kind].argmax(1)
    return proposals.logits, kind, proposals.pose[sample, kind, best]


def train_jointly(
    model: PartsCapsNet,
    templates: Tensor,
    drawing: Drawing,
    images: Tensor,
    target: Tensor,
    *,
    steps: int = 150,
    batch_size: int = 32,
    lr: float = 5e-4,
    seed: int = 0,
    log: Callable[[str], None] | None = None,
) -> Tensor:
    """Train the whole network and the templates from class labels and from drawing the images back.

    In each step, the pose of the whole of the true class is read, the image is drawn from that pose and
    class alone, and class loss and squared error go back through drawing, relations and detector. A few
    dreams, drawn from the present templates, keep the detector from forgetting the angles that the images do
    not show.

    Args:
        model: trained so far on dreams and labels, in place.
        templates: `[T, S, S]`.
        drawing: gives sizes and brightness of dreams.
        images: `[N, 1, H, W]`.
        target: the class of each image, `[N]`.
        steps: of Adam, with a learning rate that falls to 0.
        batch_size: images per step.
        lr: first learning rate.
        seed: of batches and dreams.
        log: gets a line every 50 steps.

    Returns:
        The templates after training.
    """
    generator = torch.Generator().manual_seed(seed)
    templates = templates.clone().requires_grad_()
    # Statistics of batch normalization stay those of dreams: they show all angles.
    model.eval()
    optimizer = torch.optim.Adam(model.parameters(), lr)
    optimizer.add_param_group({"params": [templates], "lr": 4 * lr})
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    for step in range(steps):
        batch = torch.randint(len(target), (batch_size,), generator=generator)
        logits, kind, pose = best_pose(model, images[batch], target[batch])
        drawn = draw_wholes(model.wholes, templates, kind, pose, images[batch])
        error = drawing_error(drawn.images, images[batch]).mean()
        dreams = quarter_turns(draw_dreams(templates.detach(), drawing, batch_size // 8, generator))
        loss = (
            whole_loss(logits, target[batch])
            + DRAWING_WEIGHT * error
            + DREAM_WEIGHT * dream_loss(model.detector, dreams)
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            templates.clamp_(min=0)
        if log and step % 50 == 49:
            log(f"together: step {step + 1} of {steps}, drawing error {100 * float(error.detach()):.1f} %")
    return templates.detach()

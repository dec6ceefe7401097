"""How well scenes with several wholes are read: which wholes, where, and whose parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps.capsules import Instances
from torchcaps.data.worlds.flat import SceneOptions, Scenes, World, draw_world
from torchcaps.experiments.wholes.training import scene_images
from torchcaps.layers import ParsedWholes
from torchcaps.models import PartsCapsNet
from torchcaps.models.parts_capsnet import ParsedImage
from torchcaps.poses.similarity import SimilarityPose

# A whole is found if its type is right and its pose is within these of the true one.
PLACE_TOLERANCE = 0.1  # of its scale, which is the radius of the whole
SCALE_TOLERANCE = 0.1
ANGLE_TOLERANCE = math.radians(5)
_SPACE = SimilarityPose()


class CrowdQuality(NamedTuple):
    """How well the wholes of scenes are found.

    Attributes:
        f1: harmonic mean of recall and precision over all scenes.
        recall: share of true wholes that are found with the right type and pose.
        precision: share of found wholes that are true.
        named: the F1 of types alone, whatever the poses.
        exact: share of scenes in which all wholes are found and nothing else.
        place: median distance of a found whole from the true one, relative to its scale.
        angle: median error of its angle in degrees.
    """

    f1: float
    recall: float
    precision: float
    named: float
    exact: float
    place: float
    angle: float


def true_parts(scenes: Scenes) -> Instances:
    """The parts of scenes as a detector without errors would find them."""
    upright = scenes.part_pose.new_tensor([1.0, 0.0, 0.0, 0.0])
    pose = torch.where(scenes.part_mask.unsqueeze(-1), scenes.part_pose, upright)
    return Instances(scenes.part_type, pose.float(), scenes.part_mask.float())


def parse_all(model: PartsCapsNet, images: Tensor, batch_size: int = 100) -> ParsedImage:
    """Parse many images, a batch at a time; the groups are left out."""
    model.eval()
    parsed = [model.parse(batch) for batch in images.split(batch_size)]
    return ParsedImage(
        _joined([each.parts for each in parsed]), join_wholes([each.wholes for each in parsed]), None
    )


def join_wholes(parsed: list[ParsedWholes]) -> ParsedWholes:
    """The wholes of several batches as those of one."""
    return ParsedWholes(
        _joined([each.wholes for each in parsed]),
        torch.cat([each.parent for each in parsed]),
        torch.cat([each.coupling for each in parsed]),
    )


def _joined(instances: list[Instances]) -> Instances:
    return Instances(*(torch.cat(values) for values in zip(*instances)))


def match_things(
    found: Instances, kind: Tensor, pose: Tensor, mask: Tensor, *, poses: bool = True
) -> tuple[Tensor, Tensor]:
    """Find each true thing among those found; none is used twice.

    Args:
        found: `[B, M]`.
        kind: the true types `[B, W]`.
        pose: the true poses `[B, W, 4]`.
        mask: False in padding, `[B, W]`.
        poses: whether poses must be right too, or types alone.

    Returns:
        Index of the thing found, int64 `[B, W]`, -1 for none; and its errors in place (relative to the true
        scale), scale (relative) and angle (radians), `[B, W, 3]`.
    """
    pose = pose.to(found.pose)
    scale = _SPACE.scale(pose).clamp(min=1e-6).unsqueeze(2)
    place = torch.cdist(pose[..., 2:], found.pose[..., 2:]) / scale
    grown = (_SPACE.scale(found.pose).unsqueeze(1) / scale - 1).abs()
    turned = _SPACE.angle(found.pose).unsqueeze(1) - _SPACE.angle(pose).unsqueeze(2)
    turned = torch.remainder(turned + math.pi, 2 * math.pi).sub(math.pi).abs()
    right = (kind.unsqueeze(2) == found.kind.unsqueeze(1)) & (found.activation > 0).unsqueeze(1)
    right &= mask.unsqueeze(2)
    if poses:
        right &= (place <= PLACE_TOLERANCE) & (grown <= SCALE_TOLERANCE) & (turned <= ANGLE_TOLERANCE)
    index = assign_nearest(torch.where(right, place + turned, torch.inf))
    errors = torch.stack([place, grown, turned], -1)
    chosen = index.clamp(min=0)[..., None, None].expand(-1, -1, 1, 3)
    return index, errors.gather(2, chosen).squeeze(2)


def assign_nearest(distance: Tensor) -> Tensor:
    """Pairs of rows and columns, the nearest first, each in one pair at most.

    Args:
        distance: `[B, W, M]`, infinite where a pair is impossible.

    Returns:
        The column of each row, int64 `[B, W]`; -1 for none.

    Example:
        >>> assign_nearest(torch.tensor([[[2.0, 1.0], [9.0, 3.0], [torch.inf, torch.inf]]]))
        tensor([[ 1,  0, -1]])
    """
    distance = distance.clone()
    count, width = distance.shape[1:]
    index = torch.full((len(distance), count), -1)
    rows = torch.arange(len(distance))
    for _ in range(min(count, width)):
        nearest, best = distance.flatten(1).min(1)
        true, mine = best // width, best % width
        hit = nearest < torch.inf
        index[rows[hit], true[hit]] = mine[hit]
        distance[rows, true] = torch.inf
        distance[rows, :, mine] = torch.inf
    return index


def crowd_quality(found: Instances, scenes: Scenes) -> CrowdQuality:
    """Compare wholes that were found with the true ones."""
    truth = scenes.whole_type, scenes.whole_pose, scenes.whole_mask
    index, errors = match_things(found, *truth)
    named, _ = match_things(found, *truth, poses=False)
    hit, present, true = index >= 0, (found.activation > 0).sum(), scenes.whole_mask.sum()
    exact = (hit | ~scenes.whole_mask).all(1) & ((found.activation > 0).sum(1) == scenes.whole_mask.sum(1))
    middle = errors[hit].median(0).values if hit.any() else errors.new_full((3,), math.nan)
    return CrowdQuality(
        f1=float(2 * hit.sum() / (present + true)),
        recall=float(hit.sum() / true),
        precision=float(hit.sum() / present.clamp(min=1)),
        named=float(2 * (named >= 0).sum() / (present + true)),
        exact=float(exact.float().mean()),
        place=float(middle[0]),
        angle=math.degrees(float(middle[2])),
    )


def measure_crowds(
    model: PartsCapsNet,
    world: World,
    kind: str = "crowded",
    *,
    count: int = 500,
    seed: int = 0,
    split: str = "test",
    options: Mapping[str, object] | None = None,
) -> CrowdQuality:
    """Read scenes with several wholes from pixels.

    Args:
        model: trained, with frames that are those of the world, see `align_wholes`.
        world: what to draw.
        kind: of the scenes: `crowded`, `twins` or `ambiguous`.
        count: number of scenes.
        seed: of the scenes.
        split: of the scenes.
        options: of the scenes.
    """
    chosen = SceneOptions(**(options or {}))  # type: ignore[arg-type]
    scenes = draw_world(world, kind, count, seed=seed, split=split, options=chosen)
    return crowd_quality(parse_all(model, scene_images(scenes)).wholes.wholes, scenes)


def whole_score(logits: Tensor) -> Tensor:
    """Log-likelihood ratio of some whole being in an image against loose parts, `[B, J]` to `[B]`."""
    return torch.logsumexp(logits, -1)


@torch.no_grad()
def measure_scrambled(
    model: PartsCapsNet,
    world: World,
    *,
    count: int = 500,
    seed: int = 0,
    split: str = "test",
    options: Mapping[str, object] | None = None,
) -> float:
    """Area under the curve of `whole_score`: wholes against the same parts in a wrong relation.

    This is the probability that a whole has a higher score than a scrambled one. The network has seen no
    scrambled whole in training.
    """
    chosen = SceneOptions(**(options or {}))  # type: ignore[arg-type]
    scenes = draw_world(world, "scrambled", count, seed=seed, split=split, options=chosen)
    model.eval()
    score = torch.cat([whole_score(model(batch).logits) for batch in scene_images(scenes).split(100)])
    return area_under_curve(score, scenes.whole_mask[:, 0])


def area_under_curve(score: Tensor, positive: Tensor) -> float:
    """The share of pairs in which the positive one has the higher score; equal scores count half.

    Example:
        >>> area_under_curve(torch.tensor([3.0, 1.0, 2.0, 0.0]), torch.tensor([True, True, False, False]))
        0.75
    """
    high, low = score[positive].unsqueeze(1), score[~positive]
    return float(((high > low).double() + 0.5 * (high == low)).mean())

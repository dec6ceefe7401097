"""Learning wholes from class labels alone, on the parts that a trained detector finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from torchcaps.capsules import Instances
from torchcaps.data.worlds.flat import SceneOptions, Scenes, World, draw_world
from torchcaps.layers import ConstellationCaps
from torchcaps.models import PartsCapsNet
from torchcaps.poses.similarity import SimilarityPose

TRAINED_ANGLES = (-30.0, 30.0)
# Conditions of the test: what differs from single wholes at trained angles, scales and places.
CONDITIONS = {
    "trained angles": {"angle": TRAINED_ANGLES},
    "all angles": {},
    "far side": {"angle": (90.0, 270.0)},
    "smaller": {"scale": (0.45, 0.55)},
    "larger": {"scale": (0.9, 0.97), "offset": (0.0, 0.03)},
    "other places": {"scale": (0.5, 0.6), "offset": (0.2, 0.4)},
}

# One image whose parts were not found must not decide which example is chosen.
WORST_LOGIT = -20.0


# What a slot costs in the loss, times the probability that it is filled. A slot of a kind that a type does
# not have gets hardly any gradient from images of single wholes. Without a cost it may stay half filled, and
# then wholes in crowds, where it is empty, are scored too low to be accepted.
SLOT_COST = 0.03


def whole_loss(logits: Tensor, target: Tensor, likelihood: float = 0.3) -> Tensor:
    r"""Cross-entropy over the types of wholes and "nothing", and the likelihood of the true type.

    .. math:: -\log \frac{e^{l_t}}{1 + \sum_j e^{l_j}} - w\, l_t

    The logits are log-likelihood ratios, so "nothing" has a logit of 0. The cross-entropy alone is content
    with the parts that tell the types apart; the second term makes a type explain all its parts.

    Args:
        logits: `[B, J]`.
        target: types `[B]`.
        likelihood: w.

    Example:
        >>> whole_loss(torch.tensor([[20.0, 0.0]]), torch.tensor([0]), likelihood=0.1)
        tensor(-2.)
    """
    nothing = torch.zeros_like(logits[:, :1])
    true = logits.gather(1, target.unsqueeze(1)).mean()
    return F.cross_entropy(torch.cat([logits, nothing], 1), target) - likelihood * true


def scene_images(scenes: Scenes) -> Tensor:
    """Images in 0..1."""
    return scenes.images.float() / 255


@torch.no_grad()
def find_all_parts(model: PartsCapsNet, images: Tensor, batch_size: int = 128) -> Instances:
    """The parts of many images, a batch at a time."""
    model.eval()
    batches = [model.find_parts(batch) for batch in images.split(batch_size)]
    kind, pose, activation = (torch.cat(values) for values in zip(*batches))
    return Instances(kind, pose, activation)


@torch.no_grad()
def choose_examples(
    layer: ConstellationCaps, parts: Instances, target: Tensor, *, candidates: int = 8, samples: int = 32
) -> None:
    """Start each type of whole as one image of its class, the one that explains others of its class best.

    Args:
        layer: to change, in place.
        parts: instances `[N, K]` in N images.
        target: the type of the whole in each image, `[N]`.
        candidates: number of images of each class to choose from, the first ones.
        samples: number of images of the class that they should explain.
    """
    chosen = []
    for number in range(layer.wholes):
        mine = (target == number).nonzero().squeeze(1)
        if len(mine) == 0:
            raise ValueError(f"type {number} occurs in no image; every type needs at least one")
        some = mine[:candidates]
        trial = ConstellationCaps(layer.kinds, len(some), layer.roles, min_sigma=layer.min_sigma)
        trial.set_examples(_select(parts, some))
        fit = trial.to(parts.pose)(_select(parts, mine[:samples])).logits
        chosen.append(some[fit.clamp(min=WORST_LOGIT).mean(0).argmax()])
    layer.set_examples(_select(parts, torch.stack(chosen)))


def train_wholes(
    layer: ConstellationCaps,
    parts: Instances,
    target: Tensor,
    *,
    steps: int = 200,
    batch_size: int = 60,
    lr: float = 2e-2,
    jitter: float = 0.02,
    seed: int = 0,
    log: Callable[[str], None] | None = None,
) -> None:
    """Train wholes on parts that are found already: the detector does not change.

    Each type of whole starts as one of its images, see `choose_examples`. The loss is `whole_loss` and the
    cost of filled slots.

    Args:
        layer: to train, in place.
        parts: instances `[N, K]` in N images.
        target: the type of the whole in each image, `[N]`.
        steps: of Adam, with a learning rate that rises and falls once.
        batch_size: images per step.
        lr: highest learning rate.
        jitter: standard deviation of noise that is added to poses, in units of the image: poses of parts are
            less exact in crowds and at other scales than in the images of this training.
        seed: of the choice of batches, and of the noise.
        log: gets a line every 100 steps.
    """
    choose_examples(layer, parts, target)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(layer.parameters(), lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps)
    for step in range(1, steps + 1):
        batch = torch.randint(len(target), (batch_size,), generator=generator)
        kind, pose, activation = _select(parts, batch)
        noise = jitter * torch.randn(pose.shape, generator=generator).to(pose)
        loss = whole_loss(layer(Instances(kind, pose + noise, activation)).logits, target[batch])
        loss = loss + SLOT_COST * torch.sigmoid(layer.filled_logit).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if log and step % 100 == 0:
            log(f"wholes: step {step} of {steps}, loss {float(loss.detach()):.3f}")


def _select(instances: Instances, index: Tensor) -> Instances:
    return Instances(*(values[index] for values in instances))


@torch.no_grad()
def align_frames(layer: ConstellationCaps, parts: Instances, target: Tensor, pose: Tensor) -> None:
    """Give the wholes of a trained layer the frames of some true poses.

    What a layer learns from class labels fixes the pose of a whole up to one constant similarity for each
    type. This chooses that constant, and changes nothing else: no score, no parse.

    Args:
        layer: to change, in place.
        parts: instances `[N, K]`.
        target: the type of the whole in each image, `[N]`.
        pose: its true pose, `[N, 4]`.
    """
    best = layer(parts).best
    found = best[torch.arange(len(target)), target]
    space = SimilarityPose()
    change = space.move(pose.to(found), space.inverse(found))
    unchanged = change.new_tensor([1.0, 0.0, 0.0, 0.0])
    frames = [change[target == number] for number in range(layer.wholes)]
    layer.set_frames(torch.stack([each.median(0).values if len(each) else unchanged for each in frames]))


@torch.no_grad()
def measure_wholes(
    model: PartsCapsNet,
    world: World,
    *,
    count: int = 1000,
    seed: int = 0,
    conditions: Mapping[str, Mapping[str, object]] = CONDITIONS,
) -> dict[str, float]:
    """Share of single wholes that are named right, by condition.

    Args:
        model: trained.
        world: what to draw.
        count: number of new scenes for each condition.
        seed: of the scenes.
        conditions: options of the scenes by name.
    """
    result = {}
    for name, options in conditions.items():
        scenes = draw_world(
            world,
            "single",
            count,
            seed=seed,
            split="test",
            options=SceneOptions(**options),  # type: ignore[arg-type]
        )
        parts = find_all_parts(model, scene_images(scenes))
        named = [
            model.wholes(Instances(*batch)).logits.argmax(1)
            for batch in zip(*(values.split(128) for values in parts))
        ]
        result[name] = float((torch.cat(named) == scenes.labels).float().mean())
    return result

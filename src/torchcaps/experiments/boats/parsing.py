r"""Scenes of boats and houses parsed by routing: which part belongs to which whole.

Every part proposes one house and one boat, at the pose that the whole would have if the part belonged to it.
So P parts make 2 P parents. Part i of type p votes for a parent of type w with its pose times relation[w, p],
like a capsule. Two parts of the same whole propose the same pose, and proposals that end at the same pose
count as one whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchcaps.data.worlds.boats import RELATION, WHOLES, Scene, pose_matrix
from torchcaps.data.worlds.boats import votes as votes_of_parts
from torchcaps.routing import Routing, RoutingOutput, UniformRouting, create_routing
from torchcaps.routing.base import weighted_mean
from torchcaps.votes import DenseVotes

KINDS = ("single", "crowded", "ambiguous")
EM, MIXING, KMEANS, DYNAMIC, UNIFORM = "EM", "EM, mixing proportions", "k-means", "dynamic", "uniform"
INITIAL, NEAREST = "initial couplings, no iteration", "nearest parts in the image"
ROUTED = (EM, MIXING, KMEANS, DYNAMIC)
UNROUTED = (UNIFORM, INITIAL, NEAREST)
ITERATIONS = 12
SIGMA = 0.06  # expected standard deviation of the votes for one whole
OPTIONS: dict[str, dict[str, Any]] = {
    # With these λ and β_a a proposal is inactive with half a part, and active with one part or more.
    EM: {
        "name": "em",
        "iterations": ITERATIONS,
        "inverse_temperature": 0.3,
        "decay": 0.0,
        "beta_a": -20.0,
        "epsilon": SIGMA**2,
    },
    MIXING: {
        "name": "em",
        "iterations": ITERATIONS,
        "activation": "mixing",
        "covariance": "fixed",
        "sigma": SIGMA,
    },
    KMEANS: {
        "name": "kmeans",
        "iterations": ITERATIONS,
        "metric": "euclidean",
        "temperature": 2 * SIGMA**2,
    },
    # 3 iterations, as in the paper: on a hundred other scenes of each kind, 2 to 4 gave the same result. The
    # 12 iterations of the other routings are too many, because the logits keep growing (crowded scenes: 95 %
    # correct instead of 99 %).
    DYNAMIC: {"name": "dynamic", "iterations": 3},
    UNIFORM: {"name": "uniform"},
}
ROUTINGS: dict[str, Callable[[], Routing]] = {
    name: partial(create_routing, **options) for name, options in OPTIONS.items()
}

# Two poses that are closer than this are the same whole. The distance is taken over all matrix entries; the
# image is 2 wide, and parts have scales of 0.2 to 0.5.
SAME_DISTANCE = 0.12
# Standard deviation of the Gaussian that makes the initial couplings.
INITIAL_SIGMA = 0.12


class SceneBatch(NamedTuple):
    """B scenes with the same P types of parts, rectangles first, so that their votes are one tensor.

    Attributes:
        part_type: `[P]`.
        part_pose: with noise, `[B, P, 3, 3]`.
        part_whole: index of the true whole, `[B, P]`; -1 for parts that belong to no whole.
        whole_type: type of the true whole, `[B, P]`; -1 for parts that belong to no whole.
    """

    part_type: Tensor
    part_pose: Tensor
    part_whole: Tensor
    whole_type: Tensor


class Parse(NamedTuple):
    """How the parts of a batch of scenes were grouped.

    Attributes:
        together: whether two parts are in the same whole, `[B, P, P]`.
        whole_type: type of the whole of each part, `[B, P]`.
        share: coupling of each part to each proposal, summed over equal proposals, `[B, P, 2 P]`.
    """

    together: Tensor
    whole_type: Tensor
    share: Tensor


def add_noise(pose: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """Poses `[..., 3, 3]` with a random translation, rotation and scale.

    Args:
        pose: exact poses.
        noise: standard deviation of the angle in radians, of the logarithm of the scale, and of the
            translation in units of the scale of the part.
        generator: generator of the random numbers.
    """
    rows = []
    for matrix in pose.reshape(-1, 3, 3):
        x, y, angle, size = (noise * torch.randn(4, generator=generator, dtype=torch.float64)).tolist()
        rows.append(matrix @ pose_matrix(x, y, angle, float(torch.tensor(size).exp())))
    return torch.stack(rows).reshape(pose.shape)


def batch_scenes(scenes: Iterable[Scene], noise: float, seed: int) -> Iterator[SceneBatch]:
    """Group scenes with equal part types into batches, with noise added to the part poses."""
    generator = torch.Generator().manual_seed(seed)
    groups: dict[tuple[int, ...], list[tuple[Tensor, Tensor, Tensor]]] = {}
    for scene in scenes:
        order = scene.part_type.argsort(stable=True)
        whole = scene.part_whole[order]
        whole_type = torch.where(whole >= 0, scene.whole_type[whole.clamp(min=0)], -1)
        pose = add_noise(scene.part_pose[order], noise, generator)
        groups.setdefault(tuple(scene.part_type[order].tolist()), []).append((pose, whole, whole_type))
    for types, members in groups.items():
        yield SceneBatch(torch.tensor(types), *(torch.stack(each) for each in zip(*members)))


def make_votes(batch: SceneBatch) -> DenseVotes:
    """Votes of the parts for all proposals, `[B, 1, P, 2 P, 9]`; proposals are ordered by part, then type."""
    count = len(batch.part_type)
    relation = RELATION[:, batch.part_type].transpose(0, 1)  # [P, w, 3, 3]
    return DenseVotes(batch.part_pose.flatten(2), relation.repeat(1, count, 1, 1), "matrix")


def initial_coupling(votes: DenseVotes) -> Tensor:
    """Couplings to start from, `[B, 1, P, 2 P]`: each part to the proposals near its own votes.

    Starting from uniform couplings, all proposals of a type would stay equal.
    """
    # [B, P, proposer, w, 9], equal for all proposers
    vote = votes.tensor()[:, 0].unflatten(2, (-1, len(WHOLES)))
    own = vote.diagonal(dim1=1, dim2=2).movedim(-1, 1)  # [B, proposer, w, 9]
    distance = (vote - own.unsqueeze(1)).square().sum(-1).flatten(2)
    return votes.softmax(-distance.unsqueeze(1) / (2 * INITIAL_SIGMA**2))


@torch.no_grad()
def route_scenes(batch: SceneBatch, routing: Routing) -> list[RoutingOutput]:
    """Every iteration of a routing on a batch of scenes; uniform routing keeps uniform couplings."""
    votes = make_votes(batch)
    activation = batch.part_pose.new_ones(batch.part_pose.shape[:2])
    start = None if isinstance(routing, UniformRouting) else initial_coupling(votes)
    steps = routing.double().history(votes, activation, start)
    # Dynamic routing squashes its poses. To compare all routings, use the mean of the votes instead.
    return [
        step._replace(pose=weighted_mean(votes.tensor(), step.coupling)[0])
        for step in steps
        if step.coupling is not None
    ]


def parse(output: RoutingOutput, seed: int = 0) -> Parse:
    """Group the parts after an iteration; a tie between two wholes is decided at random.

    Args:
        output: one iteration, from `route_scenes`.
        seed: of the random numbers that decide ties.
    """
    assert output.coupling is not None
    coupling, pose = output.coupling[:, 0], output.pose[:, 0]
    types = torch.arange(pose.shape[1]) % len(WHOLES)
    same = (torch.cdist(pose, pose) < SAME_DISTANCE) & (types[:, None] == types)
    share = coupling @ same.to(coupling.dtype)
    tie = torch.rand(share.shape, generator=torch.Generator().manual_seed(seed), dtype=share.dtype)
    best = (share + 1e-3 * tie).argmax(-1)  # [B, P]
    among = same.gather(1, best.unsqueeze(-1).expand(-1, -1, same.shape[2]))
    together = among.gather(2, best.unsqueeze(1).expand(-1, best.shape[1], -1))
    return Parse(together, types[best], share)


def pair_nearest(batch: SceneBatch) -> Parse:
    """A parse without routing: a rectangle and a triangle that are nearest to each other are one whole.

    Its type is the one for which the two votes are closer together.
    """
    center = batch.part_pose[..., :2, 2]
    distance = torch.cdist(center, center)
    same_type = batch.part_type[:, None] == batch.part_type
    nearest = distance.masked_fill(same_type, torch.inf).argmin(-1)
    mutual = nearest.gather(1, nearest) == torch.arange(nearest.shape[1])
    pair = torch.nn.functional.one_hot(nearest, nearest.shape[1]).bool() & mutual.unsqueeze(-1)
    together = pair | torch.eye(nearest.shape[1], dtype=torch.bool)
    vote = votes_of_parts(batch.part_type, batch.part_pose).flatten(3)  # [B, P, w, 9]
    partner = vote.gather(1, nearest[:, :, None, None].expand_as(vote))
    whole_type = (vote - partner).square().sum(-1).argmin(-1)
    return Parse(together, whole_type, together.double())


def correct_parts(batch: SceneBatch, parsed: Parse) -> Tensor:
    """Whether each part is grouped with its true partner only, in a whole of the true type; `[B, P]`.

    A part that belongs to no whole is correct if it is alone.
    """
    whole = batch.part_whole
    itself = torch.eye(whole.shape[1], dtype=torch.bool)
    truth = ((whole.unsqueeze(1) == whole.unsqueeze(2)) & (whole >= 0).unsqueeze(2)) | itself
    single = whole < 0
    return (parsed.together == truth).all(-1) & ((parsed.whole_type == batch.whole_type) | single)


def decoy_share(batch: SceneBatch, share: Tensor) -> Tensor:
    """How much of the two contested parts of an ambiguous scene is assigned to the decoy, `[B]`.

    Only the contested parts have a partner for a whole of the other type, so their proposals of that type
    are the decoy.
    """
    wrong_type = 1 - batch.whole_type  # both wholes have one type, the decoy has the other
    rows = torch.arange(len(wrong_type)).unsqueeze(1)
    parts = torch.arange(share.shape[1])
    own = 2 * parts + wrong_type  # the proposal of each part of the type of the decoy
    assigned = share[rows, parts, own]
    contested = contested_parts(batch)
    return (assigned * contested).sum(1) / contested.sum(1)


def contested_parts(batch: SceneBatch) -> Tensor:
    """Which two parts agree on the decoy, `[B, P]`: 1 for them and 0 for the others."""
    vote = make_votes(batch).tensor()[:, 0].unflatten(2, (-1, 2))[:, :, 0]  # [B, P, w, 9]
    wrong_type = (1 - batch.whole_type)[:, :, None, None].expand(-1, -1, 1, vote.shape[-1])
    wrong_vote = vote.gather(2, wrong_type)[:, :, 0]
    distance = torch.cdist(wrong_vote, wrong_vote) + 1e9 * torch.eye(vote.shape[1], dtype=vote.dtype)
    pair = distance.flatten(1).argmin(1)
    ends = torch.stack([pair // vote.shape[1], pair % vote.shape[1]], 1)
    return torch.zeros(vote.shape[:2], dtype=vote.dtype).scatter(1, ends, 1.0)

r"""Scenes of boats and houses taken apart by routing: which part belongs to which whole.

Every part proposes a house and a boat where it would stand in one, so P parts make 2 P parents, and part i of
type p votes for a parent of type w with its pose times relation[w, p], as a capsule does. Two parts of one
whole propose the same; proposals that end at the same pose are one whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from torchcaps.data.worlds.boats import RELATION, WHOLES, Scene, pose_matrix
from torchcaps.data.worlds.boats import votes as votes_of_parts
from torchcaps.routing import Routing, RoutingOutput, UniformRouting
from torchcaps.routing.base import weighted_mean
from torchcaps.votes import DenseVotes

# How far apart two poses may lie and still be one whole, and how far a proposal attracts at first. Poses are
# compared number by number; the picture is 2 wide, and the parts have scales of 0.2 to 0.5.
SAME, REACH = 0.12, 0.12


class Crowd(NamedTuple):
    """B scenes of the same P parts, rectangles first, so that their votes make one tensor.

    Attributes:
        part_type: `[P]`.
        part_pose: as it is seen, `[B, P, 3, 3]`.
        part_whole: the truth, `[B, P]`; -1 for strays.
        part_kind: type of that whole, `[B, P]`; -1 for strays.
    """

    part_type: Tensor
    part_pose: Tensor
    part_whole: Tensor
    part_kind: Tensor


class Parse(NamedTuple):
    """What a routing made of a crowd.

    Attributes:
        together: whether two parts were put into one whole, `[B, P, P]`.
        kind: type of the whole each part was put into, `[B, P]`.
        whole: the proposal each part was put to, `[B, P]`.
        belief: how much of each part each proposal has, equal proposals together, `[B, P, 2 P]`.
    """

    together: Tensor
    kind: Tensor
    whole: Tensor
    belief: Tensor


def blurred(pose: Tensor, noise: float, chance: torch.Generator) -> Tensor:
    """Poses `[..., 3, 3]` as a lower layer might see them: moved, turned and scaled a little.

    Args:
        pose: exact poses.
        noise: standard deviation of the angle in radians, of the log scale, and of the place in units of the
            part's own scale.
        chance: generator of random numbers.
    """
    rows = []
    for each in pose.reshape(-1, 3, 3):
        x, y, angle, size = (noise * torch.randn(4, generator=chance, dtype=torch.float64)).tolist()
        rows.append(each @ pose_matrix(x, y, angle, float(torch.tensor(size).exp())))
    return torch.stack(rows).reshape(pose.shape)


def crowds(scenes: Iterable[Scene], noise: float, seed: int) -> Iterator[Crowd]:
    """Scenes with equal parts together."""
    chance = torch.Generator().manual_seed(seed)
    groups: dict[tuple[int, ...], list[tuple[Tensor, Tensor, Tensor]]] = {}
    for scene in scenes:
        order = scene.part_type.argsort(stable=True)
        whole = scene.part_whole[order]
        kind = torch.where(whole >= 0, scene.whole_type[whole.clamp(min=0)], -1)
        seen = blurred(scene.part_pose[order], noise, chance)
        groups.setdefault(tuple(scene.part_type[order].tolist()), []).append((seen, whole, kind))
    for types, members in groups.items():
        yield Crowd(torch.tensor(types), *(torch.stack(each) for each in zip(*members)))


def votes_of(crowd: Crowd) -> DenseVotes:
    """Votes of the parts for all proposals, `[B, 1, P, 2 P, 9]`; proposals are ordered by part, then type."""
    count = len(crowd.part_type)
    relation = RELATION[:, crowd.part_type].transpose(0, 1)  # [P, w, 3, 3]
    return DenseVotes(crowd.part_pose.flatten(2), relation.repeat(1, count, 1, 1), matrix=True)


def proposed(crowd: Crowd, votes: DenseVotes) -> Tensor:
    """The assignment to begin with, `[B, 1, P, 2 P]`: each part to proposals near to its own votes.

    From even shares all proposals of a type would be the same for ever.
    """
    vote = votes.tensor()[:, 0].unflatten(2, (-1, len(WHOLES)))  # [B, P, proposer, w, 9], alike for proposers
    own = vote.diagonal(dim1=1, dim2=2).movedim(-1, 1)  # [B, proposer, w, 9]
    distance = (vote - own.unsqueeze(1)).square().sum(-1).flatten(2)
    return votes.softmax(-distance.unsqueeze(1) / (2 * REACH**2))


@torch.no_grad()
def trace(crowd: Crowd, routing: Routing) -> list[RoutingOutput]:
    """Every iteration of a routing over a crowd; uniform routing begins, and ends, with even shares."""
    votes = votes_of(crowd)
    present = crowd.part_pose.new_ones(crowd.part_pose.shape[:2])
    start = None if isinstance(routing, UniformRouting) else proposed(crowd, votes)
    steps = routing.double().history(votes, present, start)
    # Dynamic routing squashes its poses; where a cluster stands is the mean of its votes in any routing.
    return [
        step._replace(pose=weighted_mean(votes.tensor(), step.coupling)[0])
        for step in steps
        if step.coupling is not None
    ]


def parse(routed: RoutingOutput, seed: int = 0) -> Parse:
    """Who belongs together after an iteration; a part that two wholes share evenly falls to one by chance."""
    assert routed.coupling is not None
    coupling, pose = routed.coupling[:, 0], routed.pose[:, 0]
    kinds = torch.arange(pose.shape[1]) % len(WHOLES)
    same = (torch.cdist(pose, pose) < SAME) & (kinds[:, None] == kinds)
    belief = coupling @ same.to(coupling.dtype)
    tie = torch.rand(belief.shape, generator=torch.Generator().manual_seed(seed), dtype=belief.dtype)
    best = (belief + 1e-3 * tie).argmax(-1)  # [B, P]
    among = same.gather(1, best.unsqueeze(-1).expand(-1, -1, same.shape[2]))
    together = among.gather(2, best.unsqueeze(1).expand(-1, best.shape[1], -1))
    return Parse(together, kinds[best], best, belief)


def nearby(crowd: Crowd) -> Parse:
    """A parse without routing: a rectangle and a triangle nearest to each other are a whole.

    It is of the type whose two votes from them lie closer together.
    """
    place = crowd.part_pose[..., :2, 2]
    distance = torch.cdist(place, place)
    alike = crowd.part_type[:, None] == crowd.part_type
    nearest = distance.masked_fill(alike, torch.inf).argmin(-1)
    mutual = nearest.gather(1, nearest) == torch.arange(nearest.shape[1])
    pair = torch.nn.functional.one_hot(nearest, nearest.shape[1]).bool() & mutual.unsqueeze(-1)
    together = pair | torch.eye(nearest.shape[1], dtype=torch.bool)
    vote = votes_of_parts(crowd.part_type, crowd.part_pose).flatten(3)  # [B, P, w, 9]
    theirs = vote.gather(1, nearest[:, :, None, None].expand_as(vote))
    kind = (vote - theirs).square().sum(-1).argmin(-1)
    return Parse(together, kind, nearest, together.double())


def parts_right(crowd: Crowd, found: Parse) -> Tensor:
    """Whether each part is with its true partner alone, in a whole of the true type; `[B, P]`.

    A stray part is right if it is alone.
    """
    whole = crowd.part_whole
    itself = torch.eye(whole.shape[1], dtype=torch.bool)
    truth = ((whole.unsqueeze(1) == whole.unsqueeze(2)) & (whole >= 0).unsqueeze(2)) | itself
    stray = whole < 0
    return (found.together == truth).all(-1) & ((found.kind == crowd.part_kind) | stray)


def decoy_belief(crowd: Crowd, belief: Tensor) -> Tensor:
    """How much of the two contested parts of ambiguous scenes the decoy has, `[B]`.

    Only the contested ones have a partner for a whole of the other type: it is their proposals of that
    type that they share.
    """
    count = belief.shape[1]
    wrong = 1 - crowd.part_kind  # both wholes are of one type, the decoy of the other
    rows = torch.arange(len(wrong)).unsqueeze(1)
    parts = torch.arange(count)
    own = 2 * parts + wrong  # each part's own proposal of the decoy's type
    believed = belief[rows, parts, own]
    inner = contested(crowd)
    return (believed * inner).sum(1) / inner.sum(1)


def contested(crowd: Crowd) -> Tensor:
    """Which two parts agree on the decoy, `[B, P]`, 1 for them and 0 for the others."""
    vote = votes_of(crowd).tensor()[:, 0].unflatten(2, (-1, 2))[:, :, 0]  # [B, P, w, 9]
    wrong = (1 - crowd.part_kind)[:, :, None, None].expand(-1, -1, 1, vote.shape[-1])
    wrong_vote = vote.gather(2, wrong)[:, :, 0]
    distance = torch.cdist(wrong_vote, wrong_vote) + 1e9 * torch.eye(vote.shape[1], dtype=vote.dtype)
    pair = distance.flatten(1).argmin(1)
    ends = torch.stack([pair // vote.shape[1], pair % vote.shape[1]], 1)
    return torch.zeros(vote.shape[:2], dtype=vote.dtype).scatter(1, ends, 1.0)

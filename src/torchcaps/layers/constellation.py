from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torchcaps._checks import check_count, check_number, check_tensor
from torchcaps._compiling import can_read
from torchcaps._pytrees import serializable
from torchcaps.capsules import Instances
from torchcaps.poses.similarity import SimilarityPose
from torchcaps.routing.base import without_autocast
from torchcaps.votes import at_least_float32

# Below these, a number counts as 0: an activation, the squared scale of a pose, the fit of a child.
_MIN_ACTIVATION = 1e-9
_MIN_SQUARE = 1e-8
_MIN_FIT = 1e-13
_SPACE = SimilarityPose()
# A slot that an example fills is filled with a probability of 95 % at first, another with 5 %.
_FILLED_LOGIT = 3.0


@serializable
class Proposals(NamedTuple):
    """Wholes that the children propose: each child, in each role, proposes one whole of each type.

    Attributes:
        pose: `[B, J, K·R, 4]`, ordered by child and then by role.
        score: log-likelihood ratio of the whole being there, `[B, J, K·R]`.
        logits: one number for each type, `[B, J]`: the logarithm of the summed likelihood ratios.
        best: pose of the best proposal of each type, fitted to all the children that confirm it, `[B, J, 4]`.
    """

    pose: Tensor
    score: Tensor
    logits: Tensor
    best: Tensor


@serializable
class ParsedWholes(NamedTuple):
    """Wholes and their parts.

    Attributes:
        wholes: instances `[B, M]`, the best first; padded with activation 0.
        parent: index of the whole that each child belongs to, int64 `[B, K]`; -1 for none.
        coupling: 1 where a child belongs to a whole, otherwise 0, `[B, K, M]`.
    """

    wholes: Instances
    parent: Tensor
    coupling: Tensor


class ConstellationCaps(nn.Module):
    r"""Wholes from parts: children of known kinds propose wholes, and other children confirm them.

    A whole of type j has slots: R roles for each kind t of child, :math:`R = 2` if it may have two wheels.
    Slot (t, r) has a learned relation :math:`W_{tjr}`, a similarity that says where the whole is as seen from
    the child; a learned probability :math:`\pi_{tjr}` that the slot is filled; and a learned
    :math:`\sigma_{tjr}`, the error of each of the four numbers of a child's pose, relative to its scale.
    Child i of kind t and pose :math:`M_i` votes :math:`V_{ijr} = M_i W_{tjr}`, which proposes a whole of that
    pose. In such a whole, slot (u, s) should hold a child at :math:`M_i D` with
    :math:`D = W_{tjr} W_{ujs}^{-1}`. The log-likelihood ratio of the proposal against independent children
    adds up over all slots:

    .. math::
        \log a_i \pi_{tjr} + \sum_{(u, s) \ne (t, r)} \log \Bigl(1 - \pi_{ujs} +
        \pi_{ujs} \sum_{k \ne i} a_k\, \frac{N(M_i^{-1} M_k;\, D, v)}{b} \Bigr)

    where k runs over the children of kind u, and b is a constant density of children that belong to nothing.
    In units of the scale of D, angle and scale (a, b) have the variance
    :math:`\sigma_{tjr}^2 + \sigma_{ujs}^2`, and the place (x, y) has
    :math:`\sigma_{tjr}^2 (1 + \|D_{xy}\|^2) / \|D_{ab}\|^2 + \sigma_{ujs}^2`: a small child knows less about
    a distant one. A child that is the best for one slot is left out of the slots of other roles that it fits
    less well: no child confirms a whole twice. Only relations between children enter: a change of viewpoint
    moves the proposals and does not change their scores.

    Poses of wholes are known up to one constant similarity for each type, see `set_frames`.

    Args:
        kinds: number of kinds of children, T.
        wholes: number of types of wholes, J.
        roles: how many slots for each kind a whole has, R.
        sigma: what all σ start from. Training with a small one may miss some parts of a whole.
        min_sigma: the smallest σ.
        log_background: log b.

    Example:
        >>> layer = ConstellationCaps(kinds=3, wholes=8)
        >>> parts = Instances(torch.randint(3, (2, 5)), torch.randn(2, 5, 4), torch.rand(2, 5))
        >>> layer(parts).logits.shape
        torch.Size([2, 8])
        >>> layer.parse(parts, limit=3).wholes.pose.shape
        torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        kinds: int,
        wholes: int,
        roles: int = 2,
        *,
        sigma: float = 1.0,
        min_sigma: float = 0.04,
        log_background: float = -5.0,
    ) -> None:
        super().__init__()
        self.kinds = check_count("kinds", kinds)
        self.wholes = check_count("wholes", wholes)
        self.roles = check_count("roles", roles)
        self.min_sigma = check_number("min_sigma", min_sigma, above=True)
        self.log_background = check_number("log_background", log_background, None)
        slots = (kinds, wholes, roles)
        # The child may stand in the whole at any angle.
        angle, (x, y) = 2 * math.pi * torch.rand(slots), 0.5 * torch.randn(2, *slots)
        self.weight = nn.Parameter(SimilarityPose.from_parts(angle, torch.ones(slots), x, y))
        self.log_sigma = nn.Parameter(torch.full(slots, math.log(check_number("sigma", sigma, above=True))))
        self.filled_logit = nn.Parameter(torch.zeros(slots))

    def forward(self, instances: Instances) -> Proposals:
        """All proposals of these children, `K` in each sample, and the logits of the types of wholes."""
        kind, pose, activation = self._check(instances)
        with without_autocast(pose):
            fits, free = self._fits(kind, pose, activation), activation.unsqueeze(1)
            score = self._scores(fits, kind, free).squeeze(1)
            types = torch.arange(self.wholes, device=kind.device) * score.shape[2]
            best = self._take(Instances(kind, pose, free), fits, score.argmax(-1) + types).pose
            votes = self._votes(kind, pose).flatten(2, 3)
            return Proposals(votes, score, torch.logsumexp(score, -1), best)

    @torch.no_grad()
    def set_examples(self, examples: Instances, *, sigma: float = 0.2) -> None:
        """Make each type of whole what one example shows: a good start for training.

        The present children of an example fill the slots of their kinds, the most active first. The frame of
        the whole has its origin in the middle of them.

        Args:
            examples: one sample of K children for each type, `[J, K]`.
            sigma: all σ.
        """
        kind, pose, activation = self._check(examples)
        if len(kind) != self.wholes:
            raise ValueError(
                f"examples must hold one sample for each of {self.wholes} types, got {len(kind)}"
            )
        self.log_sigma.fill_(math.log(check_number("sigma", sigma, above=True)))
        self.filled_logit.fill_(-_FILLED_LOGIT)
        for whole in range(self.wholes):
            present = (activation[whole] > 0.5).nonzero().squeeze(1)
            if len(present) == 0:
                continue
            frame = torch.cat([pose.new_tensor([1.0, 0.0]), pose[whole, present, 2:].mean(0)])
            used = [0] * self.kinds
            for child in present[activation[whole, present].argsort(descending=True, stable=True)].tolist():
                slot = int(kind[whole, child])
                if used[slot] < self.roles:
                    self.weight[slot, whole, used[slot]] = _SPACE.move(frame, _inverse(pose[whole, child]))
                    self.filled_logit[slot, whole, used[slot]] = _FILLED_LOGIT
                    used[slot] += 1

    @torch.no_grad()
    def set_frames(self, change: Tensor) -> None:
        """Choose the frame of each type of whole: its pose P becomes P @ change, and scores stay the same.

        Training fixes the relations between children, and nothing says which pose of a whole is the identity.

        Args:
            change: similarities `[J, 4]`.
        """
        check_tensor("change", change, "J D", J=self.wholes, D=4)
        self.weight.copy_(_SPACE.move(change[:, None].to(self.weight), self.weight))

    @torch.no_grad()
    def parse(
        self, instances: Instances, limit: int, *, threshold: float = 0.0, starts: int = 16
    ) -> ParsedWholes:
        """Find several wholes, also of one type: a part of one whole is not free for another.

        The best proposal is accepted and takes its parts: in each slot that at least half of its type fill
        (π ≥ ½), the child that fits best, if it is rather in the slot than not. The others are scored again
        without these parts, and so on. This is done from each of the best few proposals as the first one, and
        the wholes with the highest total score are returned: two children may agree on a whole by accident,
        which the other parts do not explain.

        Args:
            instances: K children in each sample.
            limit: the largest number of wholes, M.
            threshold: accept proposals with a score above this; 0 means that a whole is more likely than not.
            starts: number of proposals to start from.

        Returns:
            Wholes with the pose that brings their slots nearest to their parts: least squares over (a, b, x,
            y) of all parts, weighted by activation and by 1 / σ². The activation is the sigmoid of the score.
        """
        check_count("limit", limit)
        check_count("starts", starts)
        check_number("threshold", threshold, None)
        kind, pose, activation = self._check(instances)
        with without_autocast(pose):
            fits = self._fits(kind, pose, activation)
            starts = min(starts, self.wholes * fits.shape[2])
            free = activation.unsqueeze(1)  # [B, S, K]: 0 once a child is part of a whole
            rare = self._rare(kind)
            rounds = []
            for number in range(limit):
                out = self._taken(free) | rare
                score = self._scores(fits, kind, free).masked_fill(out, -torch.inf).flatten(2)
                # [B, S]: first each of the best proposals, later the best one.
                if number == 0:
                    best, index = score[:, 0].topk(starts)
                    # A search whose first proposal is rejected does as the best one does, a round later: with
                    # scores above 0, its total is not higher.
                    if threshold >= 0 and can_read(best):
                        starts = max(1, int((best > threshold).sum(1).max()))
                        best, index = best[:, :starts], index[:, :starts]
                    free = free.repeat(1, starts, 1)
                else:
                    best, index = score.max(-1)
                found = self._take(Instances(kind, pose, free), fits, index)
                accepted = best > threshold
                member = found.member & accepted.unsqueeze(-1)
                rounds.append(_Round(found.type, found.pose, best.masked_fill(~accepted, -torch.inf), member))
                free = free.masked_fill(member, 0.0)
                if not accepted.any():
                    break
            return _choose(rounds, limit)

    def extra_repr(self) -> str:
        """Sizes, as `print(model)` shows them."""
        return f"kinds={self.kinds}, wholes={self.wholes}, roles={self.roles}"

    def _check(self, instances: Instances) -> Instances:
        if not isinstance(instances, tuple) or len(instances) != 3:
            raise ValueError(
                "instances must be Instances(kind, pose, activation), got " + type(instances).__name__
            )
        kind, pose, activation = instances
        check_tensor("pose", pose, "B K D", D=4)
        check_tensor("activation", activation, "B K", B=pose.shape[0], K=pose.shape[1])
        if not isinstance(kind, Tensor) or kind.dtype != torch.int64 or kind.shape != pose.shape[:2]:
            got = f"{kind.dtype} {list(kind.shape)}" if isinstance(kind, Tensor) else type(kind).__name__
            raise ValueError(f"kind must be int64 {list(pose.shape[:2])}, one number per pose, got {got}")
        if kind.shape[1] == 0:
            raise ValueError("instances must hold at least one child per sample; pad with activation 0")
        if can_read(kind) and not 0 <= int(kind.min()) <= int(kind.max()) < self.kinds:
            low, high = int(kind.min()), int(kind.max())
            raise ValueError(f"kind must lie in 0..{self.kinds - 1}, got values from {low} to {high}")
        return Instances(kind, at_least_float32(pose), at_least_float32(activation))

    def _votes(self, kind: Tensor, pose: Tensor) -> Tensor:
        """Votes `[B, J, K, R, 4]`."""
        weight = at_least_float32(self.weight)[kind].movedim(2, 1)
        return _SPACE.move(weight, pose[:, None, :, None])

    def _sigma(self) -> Tensor:
        return at_least_float32(self.log_sigma).clamp(min=math.log(self.min_sigma)).exp()

    def _relations(self) -> Tensor:
        """For each two slots: D, the inverse variances in its units, and the logarithm of their product.

        Shape `[T·T, J·R·R·7]`, by kind and then by type and role of the first child and role of the second.
        """
        # [T, T, J, R, R]: kinds of both, type, roles of both.
        weight = at_least_float32(self.weight)
        between = _SPACE.move(_inverse(weight)[None, :, :, None], weight[:, None, :, :, None])
        variance = self._sigma().square()
        proposer, other = variance[:, None, :, :, None], variance[None, :, :, None]
        square = between[..., :2].square().sum(-1).clamp(min=_MIN_SQUARE)
        turn = proposer + other
        place = proposer * (1 + between[..., 2:].square().sum(-1)) / square + other
        numbers = torch.stack([1 / (square * turn), 1 / (square * place), torch.log(turn * place)], -1)
        return torch.cat([between, numbers], -1).flatten(2).flatten(0, 1)

    def _fits(self, kind: Tensor, pose: Tensor, activation: Tensor) -> Tensor:
        """How much more likely each child is under each proposal than without it, `[B, J, C, R, K]`."""
        pairs = kind.unsqueeze(2) * self.kinds + kind.unsqueeze(1)
        relations = F.embedding(pairs, self._relations()).unflatten(
            -1, (self.wholes, self.roles, self.roles, 7)
        )
        between = _SPACE.move(pose.unsqueeze(1), _inverse(pose).unsqueeze(2))[:, :, :, None, None, None]
        apart = (between - relations[..., :4]).square()
        distance = (apart[..., 0] + apart[..., 1]) * relations[..., 4]
        distance = distance + (apart[..., 2] + apart[..., 3]) * relations[..., 5]
        constant = 2 * math.log(2 * math.pi) + self.log_background
        fit = torch.exp(-0.5 * distance - relations[..., 6] - constant)  # [B, K, K, J, R, R]
        fit = fit.permute(0, 3, 1, 4, 5, 2).flatten(2, 3)
        children = torch.arange(kind.shape[1], device=kind.device)
        itself = children.repeat_interleave(self.roles)[:, None] == children  # [C, K]
        fit = fit.masked_fill(itself.unsqueeze(1), 0.0)
        with torch.no_grad():
            weighted = fit * activation[:, None, None, None]
            index = kind[:, None, None, None].expand_as(fit)
            highest = fit.new_zeros(*fit.shape[:-1], self.kinds).scatter_reduce(-1, index, weighted, "amax")
            won = torch.where(weighted == highest.gather(-1, index), fit, 0.0)
            twice = fit < won.amax(-2, keepdim=True)
        return fit.masked_fill(twice, 0.0)

    def _scores(self, fits: Tensor, kind: Tensor, activation: Tensor) -> Tensor:
        """Log-likelihood ratios `[B, S, J, C]` of proposals, for S sets of activations `[B, S, K]`."""
        one_hot = F.one_hot(kind, self.kinds).to(fits)
        # Sums over the children of each kind: [B, S, J, C, R, T].
        weight = one_hot.unsqueeze(1) * activation.unsqueeze(-1)
        total = torch.einsum("bjcrk,bskt->bsjcrt", fits, weight)
        filled = at_least_float32(self.filled_logit).permute(1, 2, 0)[:, None]  # [J, 1, R, T]
        slots = torch.log(torch.sigmoid(-filled) + torch.sigmoid(filled) * (total + _MIN_FIT))
        # The slot that the proposal came from is filled by the child that proposed it.
        roles = torch.eye(self.roles, dtype=torch.bool, device=kind.device)
        own = (roles[:, :, None] & one_hot.bool()[:, :, None, None]).flatten(1, 2)[:, None, None]
        score = torch.where(own, F.logsigmoid(filled), slots).sum((-1, -2))
        proposer = activation.clamp(min=_MIN_ACTIVATION).log().repeat_interleave(self.roles, -1)
        return score + proposer.unsqueeze(2)

    def _taken(self, free: Tensor) -> Tensor:
        """Which proposals are made by children that are not there or belong to a whole, `[B, S, 1, C]`."""
        return (free <= _MIN_ACTIVATION).repeat_interleave(self.roles, -1).unsqueeze(2)

    def _rare(self, kind: Tensor) -> Tensor:
        """Which proposals come from a slot that fewer than half of the wholes fill, `[B, 1, J, C]`.

        Training makes such slots where a detector sometimes reads a part into a whole that is not there. They
        may confirm a whole, and what fills them is not one of its parts.
        """
        return (self.filled_logit < 0)[kind].movedim(2, 1).flatten(2, 3).unsqueeze(1)

    def _take(self, instances: Instances, fits: Tensor, index: Tensor) -> _Round:
        """Type, parts and pose of the proposals `index` `[B, S]`, with S sets of activations `[B, S, K]`."""
        kind, pose, free = instances
        proposals = fits.shape[2]
        # Its shape, since a trace keeps what `len` says.
        sample = torch.arange(kind.shape[0], device=kind.device).unsqueeze(1)
        whole, child = index // proposals, index % proposals // self.roles
        role = index % self.roles
        children = torch.arange(kind.shape[1], device=kind.device)
        fit = fits[sample, whole, index % proposals] * free.unsqueeze(2)  # [B, S, R, K]
        # In each slot, the child that fits best: [B, S, R, K].
        rivals = (kind.unsqueeze(1) == kind.unsqueeze(2))[:, None, None]
        first = fit.unsqueeze(-2).masked_fill(~rivals, -1.0).argmax(-1) == children
        fit = torch.where(first, fit, 0.0)
        fit = torch.where(fit == fit.amax(2, keepdim=True), fit, 0.0)  # one role for each child
        # What is known about the slots of the type, for each child: [B, S, R, K].
        slots = whole.unsqueeze(-1), kind.unsqueeze(1)
        odds = at_least_float32(self.filled_logit).movedim(1, 0)[slots].exp().transpose(2, 3)
        same_role = torch.arange(self.roles, device=kind.device)[:, None] == role[..., None, None]
        same_kind = (kind.unsqueeze(1) == kind[sample, child].unsqueeze(-1)).unsqueeze(2)
        proposer = same_role & (children == child.unsqueeze(-1)).unsqueeze(2)
        # A slot that few wholes fill does not make a child their part, see `_rare`.
        likely = (odds >= 1) & (odds * fit > 1)
        member = (likely & ~(same_role & same_kind)) | proposer
        place = _inverse(at_least_float32(self.weight)).movedim(1, 0)[slots].transpose(2, 3)
        error = self._sigma().movedim(1, 0)[slots].transpose(2, 3) * place[..., :2].norm(dim=-1)
        weight = member * free.unsqueeze(2).clamp(min=_MIN_ACTIVATION) / error.square()
        parts = pose[:, None, None].expand_as(place)
        fitted = _SPACE.fit(place.flatten(2, 3), parts.flatten(2, 3), weight.flatten(2))
        return _Round(whole, fitted, fit.new_zeros(index.shape), member.any(2))


def _inverse(pose: Tensor) -> Tensor:
    """Inverse similarities; finite for a scale of 0, as padding has it."""
    a, b, x, y = pose.unbind(-1)
    square = (a * a + b * b).clamp(min=_MIN_SQUARE)
    a, b = a / square, -b / square
    return torch.stack([a, b, b * y - a * x, -b * x - a * y], -1)


class _Round(NamedTuple):
    """One whole for each of S searches: type `[B, S]`, pose `[B, S, 4]`, score, and parts `[B, S, K]`."""

    type: Tensor
    pose: Tensor
    score: Tensor
    member: Tensor


def _choose(rounds: list[_Round], limit: int) -> ParsedWholes:
    """The search with the highest total score, its wholes ordered by score and padded to `limit`."""
    kind, pose, score, member = (torch.stack(values, 2) for values in zip(*rounds))
    score = F.pad(score, (0, limit - score.shape[2]), value=-torch.inf)
    total = torch.where(score > -torch.inf, score, 0.0).sum(-1)
    sample = torch.arange(len(total), device=total.device).unsqueeze(1)
    search = total.argmax(1, keepdim=True)
    score, order = score[sample, search].squeeze(1).sort(dim=-1, descending=True, stable=True)
    present = score > -torch.inf

    def ordered(values: Tensor) -> Tensor:
        return F.pad(values[sample, search].squeeze(1), (0, 0, 0, limit - values.shape[2]))[sample, order]

    wholes = Instances(
        torch.where(present, ordered(kind.unsqueeze(-1)).squeeze(-1), 0),
        torch.where(present.unsqueeze(-1), ordered(pose), pose.new_tensor([1.0, 0.0, 0.0, 0.0])),
        torch.where(present, torch.sigmoid(score), 0.0),
    )
    coupling = ordered(member).to(pose).transpose(1, 2)
    parent = torch.where(coupling.any(-1), coupling.argmax(-1), -1)
    return ParsedWholes(wholes, parent, coupling)

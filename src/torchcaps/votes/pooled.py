from __future__ import annotations

import torch
from torch import Tensor

from torchcaps.votes.base import Votes
from torchcaps.votes.reductions import centered_sum


class PooledVotes(Votes):
    r"""Votes of many children that share few rows of the weight: their sums need no vote tensor.

    Votes are linear in poses, so poses of children with the same row r of the weight are added up before it
    is applied: :math:`\sum_i s_{ij}\, u_i W_{rj} = \big(\sum_i s_{ij} u_i\big) W_{rj}`. With even shares and
    one row this is the weight times the mean pose.

    Child n has row n mod R of the R rows. Votes or pose spaces from elsewhere, which may compute something
    else, are summed vote by vote.
    """

    _own_rows = False

    def total(self, share: Tensor) -> Tensor:
        """See `Votes.total`."""
        if not self._can_pool():
            return super().total(share)
        share = self._by_row(share)
        pooled = self._compose_rows(_pool(self._poses_by_row(), share)).sum(1)
        return self._add_places(pooled, share, centered=False).unsqueeze(1)

    def mean(self, share: Tensor) -> Tensor:
        r"""See `Votes.mean`.

        The sum is taken around a pose :math:`c_r` for each row and a vote :math:`m_j` for each parent,

        .. math:: m_j + \sum_r S_{rj} (c_r W_{rj} - m_j) + \sum_i s_{ij} (u_i - c_r) W_{rj}

        with the share :math:`S_{rj}` of a row. So what votes have in common cancels before it is rounded.
        """
        if not self._can_pool():
            return super().mean(share)
        share, poses = self._by_row(share), self._poses_by_row()
        center = poses.detach().mean(1, keepdim=True)
        near = self._compose_rows(_pool(poses - center, share)).sum(1)
        rows = self._compose_rows(center.squeeze(1).unsqueeze(2).expand(-1, -1, self.parents, -1))
        pooled = near + centered_sum(rows.unsqueeze(1), share.sum(1).unsqueeze(1)).squeeze(1)
        return self._add_places(pooled, share, centered=True).unsqueeze(1)

    def _can_pool(self) -> bool:
        return self._is_ours and self.space.linear and self.total_children > 0

    def _add_places(self, pooled: Tensor, share: Tensor, *, centered: bool) -> Tensor:
        """Add to sums `[B, J, D]` what the place of a child adds to its votes; nothing by default.

        Shape: share `[B, places, R, J]`. `centered` is for shares that add up to 1, as in `mean`.
        """
        return pooled

    @property
    def _rows(self) -> int:
        return self.weight.shape[0] if self.row_dims else 1

    def _poses_by_row(self) -> Tensor:
        """Poses `[B, places, R, D_in]`."""
        return self.pose.unflatten(1, (-1, self._rows))

    def _by_row(self, share: Tensor) -> Tensor:
        """Shares `[B, places, R, J]`."""
        share = share.expand(self.batch, 1, self.total_children, self.parents)
        return share.squeeze(1).unflatten(1, (-1, self._rows))

    def _compose_rows(self, poses: Tensor) -> Tensor:
        """The vote of one pose for each row and parent, `[B, R, J, D_in]` to `[B, R, J, D]`."""
        weight = self.weight if self.row_dims else self.weight.unsqueeze(0)
        votes = self.space.compose(poses.flatten(1, 2), weight.flatten(0, 1).unsqueeze(1))
        return votes.squeeze(2).unflatten(1, (self._rows, self.parents))


def _pool(poses: Tensor, share: Tensor) -> Tensor:
    """Poses added up over places, for each row and parent: `[B, R, J, D_in]`."""
    return torch.einsum("bnrd,bnrj->brjd", poses, share)

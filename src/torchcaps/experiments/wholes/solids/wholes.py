"""Wholes from the 4×4 poses of found solids: one EM layer, and other networks on the same poses."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchcaps.capsules import Capsules
from torchcaps.data.worlds.solids import PARTS, WHOLES
from torchcaps.data.worlds.solids.world import part_scale
from torchcaps.experiments.wholes.set_baselines import SetTransformer
from torchcaps.layers import DenseCaps

ROWS = 12
"""Numbers in a pose, without the last row of the matrix, which is constant."""


class SolidWholes(nn.Module):
    """Every part votes for every type of whole with a learned 4×4 matrix, and EM finds what they agree on.

    There is one child for each kind of part. The covariance is that of the rows of a pose, so that scores do
    not depend on the viewpoint, see docs/viewpoint.md.

    Args:
        kinds: number of kinds of parts.
        types: number of types of wholes.

    Example:
        >>> SolidWholes()(torch.eye(4).flatten().expand(2, 5, 16), torch.ones(2, 5)).shape
        torch.Size([2, 8])
    """

    def __init__(self, kinds: int = len(PARTS), types: int = len(WHOLES)) -> None:
        super().__init__()
        self.layer = DenseCaps(
            kinds,
            16,
            types,
            16,
            pose="matrix",
            routing="em",
            covariance="rows",
            iterations=2,
            normalize_mass=True,
            inverse_temperature=1.0,
            epsilon=1e-2,
        )

    def forward(self, pose: Tensor, activation: Tensor) -> Tensor:
        """Logits `[B, types]` from poses `[B, kinds, 16]` and activations `[B, kinds]`."""
        return self.layer(Capsules(rescaled(pose), activation)).logits


def rescaled(pose: Tensor) -> Tensor:
    """Poses of parts in other units, so that the axes of a part are about as long as the whole is wide.

    Small axes would hardly count beside the places of the parts in the covariance of the votes.
    """
    unit = torch.ones(4, 4)
    unit[:3, :3] = 1 / part_scale()
    return pose * unit.flatten().to(pose)


class SolidMLP(nn.Module):
    """An MLP on the poses and activations of all kinds of parts.

    Example:
        >>> SolidMLP()(torch.zeros(2, 5, 16), torch.ones(2, 5)).shape
        torch.Size([2, 8])
    """

    def __init__(self, kinds: int = len(PARTS), types: int = len(WHOLES), width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(kinds * (ROWS + 1), width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, types),
        )

    def forward(self, pose: Tensor, activation: Tensor) -> Tensor:
        """Logits `[B, types]`."""
        # The pose of a part that is not there means nothing.
        seen = rescaled(pose)[..., :ROWS] * activation.unsqueeze(-1)
        return self.layers(torch.cat([seen.flatten(1), activation], 1))


class SolidSet(nn.Module):
    """The set transformer of the flat worlds, on 4×4 poses.

    Example:
        >>> SolidSet()(torch.zeros(2, 5, 16), torch.ones(2, 5)).shape
        torch.Size([2, 8])
    """

    def __init__(self, kinds: int = len(PARTS), types: int = len(WHOLES), width: int = 64) -> None:
        super().__init__()
        self.kinds = kinds
        self.attention = SetTransformer(kinds, types, width)
        self.attention.embed = nn.Linear(kinds + ROWS + 1, width)

    def forward(self, pose: Tensor, activation: Tensor) -> Tensor:
        """Logits `[B, types]`."""
        kind = torch.arange(self.kinds, device=pose.device).expand(pose.shape[0], -1)
        return self.attention(kind, rescaled(pose)[..., :ROWS], activation)

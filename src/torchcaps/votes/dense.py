from __future__ import annotations

from torch import Tensor

from torchcaps._checks import check_floating, check_tensor
from torchcaps.poses import PoseSpace
from torchcaps.votes.base import Votes
from torchcaps.votes.pooled import PooledVotes


class DenseVotes(Votes):
    """Every child votes for every parent with a weight of its own.

    Shape: pose `[B, N, D_in]`, weight `[N, J, *weight_shape]`.

    Example:
        >>> votes = DenseVotes(torch.ones(2, 6, 8), torch.ones(6, 3, 8, 16))
        >>> votes.tensor().shape
        torch.Size([2, 1, 6, 3, 16])
    """

    def __init__(self, pose: Tensor, weight: Tensor, space: PoseSpace | str = "vector") -> None:
        check_floating("weight", weight, 2)
        check_tensor("pose", pose, "B N D_in", N=weight.shape[0])
        super().__init__(pose, weight, space)

    def unfold(self) -> Tensor:
        """Poses `[B, N, D_in]`."""
        return self.pose

    def compute(self, poses: Tensor) -> Tensor:
        """Votes `[B, 1, N, J, D]`."""
        return self.space.compose(poses, self.weight).unsqueeze(1)


class SharedVotes(PooledVotes):
    """Every child votes with the same weights, one per parent type: any number of children fits.

    Shape: pose `[B, N, D_in]`, weight `[J, *weight_shape]`.

    Example:
        >>> SharedVotes(torch.ones(2, 50, 8), torch.ones(3, 8, 16)).tensor().shape
        torch.Size([2, 1, 50, 3, 16])
    """

    row_dims = 0

    def __init__(self, pose: Tensor, weight: Tensor, space: PoseSpace | str = "vector") -> None:
        check_tensor("pose", pose, "B N D_in")
        super().__init__(pose, weight, space)

    def unfold(self) -> Tensor:
        """Poses `[B, N, 1, D_in]`: there is one row of weights for all children."""
        return self.pose.unsqueeze(2)

    def compute(self, poses: Tensor) -> Tensor:
        """Votes `[B, 1, N, J, D]`."""
        return self.space.compose(poses, self.weight.unsqueeze(0)).squeeze(2).unsqueeze(1)

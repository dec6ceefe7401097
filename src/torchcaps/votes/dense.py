from __future__ import annotations

from torch import Tensor

from torchcaps._checks import check_tensor
from torchcaps.votes.base import Votes
from torchcaps.votes.compute import transform


class DenseVotes(Votes):
    """Every child votes for every parent with a matrix of its own.

    Shape: pose `[B, N, D_in]`, weight `[N, J, D_in, D_out]` (matrix poses: `[N, J, P, P]`).

    Example:
        >>> votes = DenseVotes(torch.ones(2, 6, 8), torch.ones(6, 3, 8, 16))
        >>> votes.tensor().shape
        torch.Size([2, 1, 6, 3, 16])
    """

    def __init__(self, pose: Tensor, weight: Tensor, *, matrix: bool = False) -> None:
        check_tensor("weight", weight, "N J D_in D_out")
        check_tensor("pose", pose, "B N D_in", N=weight.shape[0])
        super().__init__(pose, weight, matrix=matrix)

    def unfold(self) -> Tensor:
        """Poses `[B, N, D_in]`."""
        return self.pose

    def compute(self, field: Tensor) -> Tensor:
        """Votes `[B, 1, N, J, D]`."""
        return transform(field, self.weight, matrix=self.matrix).unsqueeze(1)


class SharedVotes(Votes):
    """Every child votes with the same matrices, one per parent type: any number of children will do.

    Shape: pose `[B, N, D_in]`, weight `[J, D_in, D_out]` (matrix poses: `[J, P, P]`).

    Example:
        >>> SharedVotes(torch.ones(2, 50, 8), torch.ones(3, 8, 16)).tensor().shape
        torch.Size([2, 1, 50, 3, 16])
    """

    def __init__(self, pose: Tensor, weight: Tensor, *, matrix: bool = False) -> None:
        check_tensor("weight", weight, "J D_in D_out")
        check_tensor("pose", pose, "B N D_in")
        super().__init__(pose, weight, matrix=matrix)

    def unfold(self) -> Tensor:
        """Poses `[B, N, 1, D_in]`: every child is of the one type there is."""
        return self.pose.unsqueeze(2)

    def compute(self, field: Tensor) -> Tensor:
        """Votes `[B, 1, N, J, D]`."""
        return transform(field, self.weight.unsqueeze(0), matrix=self.matrix).squeeze(2).unsqueeze(1)

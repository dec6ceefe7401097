from __future__ import annotations

import torch
from torch import Tensor

from torchcaps._checks import check_count, check_tensor
from torchcaps.votes.base import Votes
from torchcaps.votes.compute import transform


def check_padding(padding: int, kernel_size: int) -> int:
    """Padding of at least 0, and so little that every field still holds a child."""
    if check_count("padding", padding, minimum=0) >= kernel_size:
        raise ValueError(f"padding must be below kernel_size={kernel_size}, got {padding}")
    return padding


class ClassVotes(Votes):
    """Every capsule of a grid votes for every class, with matrices shared over positions.

    With `coordinates`, the position of the child, scaled to 0..1, is added to two numbers of its vote,
    so that sharing does not forget where it stands: row and column go to the first two elements of the
    right-hand column of a matrix pose, or to the first two numbers of a vector pose.

    Shape: pose `[B, H, W, C, D_in]`, weight `[C, J, D_in, D_out]` (matrix poses: `[C, J, P, P]`).

    Example:
        >>> ClassVotes(torch.ones(2, 4, 4, 3, 16), torch.ones(3, 5, 4, 4), matrix=True).tensor().shape
        torch.Size([2, 1, 48, 5, 16])
    """

    def __init__(
        self, pose: Tensor, weight: Tensor, *, matrix: bool = False, coordinates: bool = True
    ) -> None:
        check_tensor("weight", weight, "C J D_in D_out")
        check_tensor("pose", pose, "B H W C D_in", C=weight.shape[0])
        super().__init__(pose.flatten(1, 3), weight, matrix=matrix)
        self.height, self.width, self.types = pose.shape[1:4]
        self.coordinates = coordinates
        if coordinates and weight.shape[-1] < 2:
            raise ValueError("coordinates need poses of at least 2 numbers per column; set coordinates=False")

    def offset(self) -> Tensor:
        """What coordinate addition adds to the votes of each place, `[H, W, D]`."""
        offset = self.pose.new_zeros(self.height, self.width, self.pose_size)
        side = self.weight.shape[-1]
        row_element, column_element = (side - 1, 2 * side - 1) if self.matrix else (0, 1)
        rows = (torch.arange(self.height, device=offset.device, dtype=offset.dtype) + 0.5) / self.height
        columns = (torch.arange(self.width, device=offset.device, dtype=offset.dtype) + 0.5) / self.width
        offset[:, :, row_element] = rows[:, None]
        offset[:, :, column_element] = columns[None, :]
        return offset

    def unfold(self) -> Tensor:
        """Poses by place and type, `[B, H·W, C, D_in]`."""
        return self.pose.unflatten(1, (-1, self.types))

    def compute(self, field: Tensor) -> Tensor:
        """Votes `[B, 1, H·W·C, J, D]`."""
        votes = transform(field, self.weight, matrix=self.matrix)
        if self.coordinates:
            votes = votes + self.offset().flatten(0, 1)[:, None, None]
        return votes.flatten(1, 2).unsqueeze(1)


class ConvVotes(Votes):
    """The capsules in a K×K field vote for the parents that stand over it.

    Children of a field are ordered by row, column, type. Where the padding reaches outside the image
    there is no child, hence no vote.

    Shape: pose `[B, H, W, C, D_in]`, weight `[K·K·C, J, D_in, D_out]` (matrix poses: `[K·K·C, J, P, P]`);
    P is :math:`H' W'` with :math:`H' = \\lfloor (H + 2\\,padding - K) / stride \\rfloor + 1`.

    Example:
        >>> votes = ConvVotes(torch.ones(2, 7, 7, 3, 16), torch.ones(27, 5, 4, 4), matrix=True,
        ...                   kernel_size=3, stride=2)
        >>> votes.grid, votes.tensor().shape
        ((3, 3), torch.Size([2, 9, 27, 5, 16]))
    """

    def __init__(
        self,
        pose: Tensor,
        weight: Tensor,
        *,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        matrix: bool = False,
    ) -> None:
        check_count("kernel_size", kernel_size)
        check_count("stride", stride)
        check_padding(padding, kernel_size)
        check_tensor("weight", weight, "K·K·C J D_in D_out")
        types, rest = divmod(weight.shape[0], kernel_size**2)
        if rest:
            raise ValueError(f"weight must have K·K·C rows with K={kernel_size}, got {weight.shape[0]}")
        check_tensor("pose", pose, "B H W C D_in", C=types)
        height, width = pose.shape[1:3]
        super().__init__(pose.flatten(1, 3), weight, matrix=matrix)
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.input_grid = (height, width)
        self.grid = (self._extent("height", height), self._extent("width", width))
        self.index = self._index(height, width, types)

    def _extent(self, side: str, size: int) -> int:
        extent = (size + 2 * self.padding - self.kernel_size) // self.stride + 1
        if extent < 1:
            raise ValueError(
                f"pose has {side} {size}: with padding {self.padding} no field of kernel_size "
                f"{self.kernel_size} fits; use a larger image or a smaller kernel"
            )
        return extent

    def _index(self, height: int, width: int, types: int) -> Tensor:
        assert self.grid is not None
        device = self.pose.device
        within = torch.arange(self.kernel_size, device=device) - self.padding
        rows = torch.arange(self.grid[0], device=device)[:, None] * self.stride + within
        columns = torch.arange(self.grid[1], device=device)[:, None] * self.stride + within
        rows, columns = rows[:, None, :, None], columns[None, :, None, :]
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        child = (rows * width + columns)[..., None] * types + torch.arange(types, device=device)
        child = torch.where(inside[..., None], child, self.total_children)
        return child.flatten(0, 1).flatten(1)

    def unfold(self) -> Tensor:
        """Poses in the field of each position, `[B, P, K·K·C, D_in]`; zero where it leaves the image."""
        assert self.index is not None
        outside = self.pose.new_zeros(self.batch, 1, self.pose.shape[2])
        field = torch.cat([self.pose, outside], 1).index_select(1, self.index.flatten())
        return field.unflatten(1, self.index.shape)

    def compute(self, field: Tensor) -> Tensor:
        """Votes `[B, P, K·K·C, J, D]`."""
        return transform(field, self.weight, matrix=self.matrix)

r"""Votes are geometry: who votes for whom, and how a child's pose becomes a vote.

A vote is lazy: it holds poses and weights, and `tensor()` multiplies them out to `[B, P, I, J, D]`:
B samples, P parent positions, I children in the field of one position, J parent types, D pose size.

=============  =====================================  =============================  =============
votes          who votes for whom                     weight                         P, I
=============  =====================================  =============================  =============
`DenseVotes`   every child for every parent           `[N, J, ...]`                  1, N
`SharedVotes`  the same, one matrix per parent type   `[J, ...]`                     1, any
`ConvVotes`    a K×K field of types C, with a stride  `[K·K·C, J, ...]`              H'·W', K·K·C
`ClassVotes`   every place, matrices per type         `[C, J, ...]`                  1, H·W·C
=============  =====================================  =============================  =============

The dots are `D_in, D_out` for vector poses, voted as :math:`W u`, and `P, P` for matrix poses, voted as
:math:`M W`; a matrix pose is flattened row by row wherever it is stored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from torchcaps.checks import check_count, check_dtype, check_tensor


def at_least_float32(values: Tensor) -> Tensor:
    """Half-precision values in float32, others as they are: routing never iterates in less."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def transform(pose: Tensor, weight: Tensor, *, matrix: bool) -> Tensor:
    """Multiply the pose of each child by its matrix for each parent.

    Shape: pose `[..., I, D_in]`, weight `[I, J, D_in, D_out]` (or `[I, J, P, P]`) to `[..., I, J, D_out]`.
    """
    if not matrix:
        return torch.einsum("...id,ijde->...ije", pose, weight)
    size = weight.shape[-1]
    return torch.einsum("...ipq,ijqr->...ijpr", pose.unflatten(-1, (size, size)), weight).flatten(-2)


def check_padding(padding: int, kernel_size: int) -> int:
    """Padding of at least 0, and so little that every field still holds a child."""
    if check_count("padding", padding, minimum=0) >= kernel_size:
        raise ValueError(f"padding must be below kernel_size={kernel_size}, got {padding}")
    return padding


class Votes(ABC):
    """What a routing sees of a layer: votes, and the competition among the parents of each child.

    Attributes:
        pose: poses of the N children `[B, N, D_in]`.
        weight: see the table above.
        matrix: whether poses are matrices.
        index: `[P, I]`, which child stands at each place of each field; N where the field leaves the
            image. `None` if there is one position, whose field is all children in order.
        grid: the shape `(H', W')` that the P positions make, or `None`.
    """

    def __init__(self, pose: Tensor, weight: Tensor, *, matrix: bool) -> None:
        self.pose = at_least_float32(pose)
        self.weight = at_least_float32(weight)
        self.matrix = matrix
        self.index: Tensor | None = None
        self.grid: tuple[int, int] | None = None
        size_in, size_out = weight.shape[-2:]
        if matrix and size_in != size_out:
            raise ValueError(f"weight of matrix poses must end in [P, P], got {list(weight.shape)}")
        wanted = size_in * size_in if matrix else size_in
        if pose.shape[-1] != wanted:
            raise ValueError(f"pose must have {wanted} numbers per capsule, got {pose.shape[-1]}")
        check_dtype("pose", self.pose, self.weight)

    @abstractmethod
    def tensor(self) -> Tensor:
        """All votes, `[B, P, I, J, D]`."""

    @property
    def batch(self) -> int:
        """B, the number of samples."""
        return self.pose.shape[0]

    @property
    def total_children(self) -> int:
        """N, the number of children in the layer below."""
        return self.pose.shape[1]

    @property
    def children(self) -> int:
        """I, the number of children in the field of one position."""
        return self.total_children if self.index is None else self.index.shape[1]

    @property
    def positions(self) -> int:
        """P, the number of places where parents stand."""
        return 1 if self.index is None else self.index.shape[0]

    @property
    def parents(self) -> int:
        """J, the number of parent types."""
        return self.weight.shape[-3]

    @property
    def pose_size(self) -> int:
        """D, the numbers in a vote."""
        return self.weight.shape[-1] ** 2 if self.matrix else self.weight.shape[-1]

    def gather(self, values: Tensor) -> Tensor:
        """Lay a number per child, `[B, N]`, into the fields: `[B, P, I]`, 0 outside the image."""
        if self.index is None:
            return values.unsqueeze(1)
        outside = values.new_zeros(values.shape[0], 1)
        return (
            torch.cat([values, outside], 1)
            .index_select(1, self.index.flatten())
            .unflatten(1, self.index.shape)
        )

    def initial(self) -> Tensor:
        """The assignment to start from, `[B, P, I, J]`: 1 / (number of parents of this child).

        Counts all types at all positions whose field covers the child, so it is larger at borders.
        """
        shape = (self.batch, self.positions, -1, self.parents)
        if self.index is None:
            return self.pose.new_full((1, 1, 1, 1), 1 / self.parents).expand(
                self.batch, 1, self.total_children, self.parents
            )
        ones = self.pose.new_ones(1, self.positions, self.index.shape[1])
        share = torch.where(self._present(), 1 / (self.parents * self._over_positions(ones, "sum")), 0.0)
        return share.unsqueeze(-1).expand(shape)

    def normalise(self, logits: Tensor, *, leak: bool = False) -> Tensor:
        r"""Softmax over all parents of each child, parents at other positions included.

        Args:
            logits: `[B, P, I, J]`.
            leak: let each child also choose "none of them", at logit 0; the assignments to parents then
                add up to less than 1.
        """
        peak = self._peak(logits)
        if leak:
            peak = peak.clamp(min=0)
        weight = torch.exp(logits - peak)
        total = self._total(weight)
        return self._divide(weight, total + torch.exp(-peak) if leak else total)

    def harden(self, logits: Tensor) -> Tensor:
        """Give each child wholly to its best parent (the limit of `normalise`); ties are shared."""
        weight = (logits == self._peak(logits)).to(logits.dtype)
        return self._divide(weight, self._total(weight))

    def _present(self) -> Tensor:
        assert self.index is not None
        return self.index < self.total_children

    def _peak(self, logits: Tensor) -> Tensor:
        """The largest logit among the parents of each child, `[B, P, I, 1]`; a constant for gradients."""
        peak = logits.detach().amax(-1)
        return (peak if self.index is None else self._over_positions(peak, "amax")).unsqueeze(-1)

    def _total(self, weight: Tensor) -> Tensor:
        total = weight.sum(-1)
        return (total if self.index is None else self._over_positions(total, "sum")).unsqueeze(-1)

    def _divide(self, weight: Tensor, total: Tensor) -> Tensor:
        if self.index is None:
            return weight / total
        # Places outside the image hold no child: whatever they computed, nothing is assigned there.
        present = self._present().unsqueeze(-1)
        return torch.where(present, weight, 0.0) / torch.where(present, total, 1.0)

    def _over_positions(self, values: Tensor, reduce: str) -> Tensor:
        """Reduce `[B, P, I]` over the places where the same child stands, and lay the result back."""
        assert self.index is not None
        where = self.index.flatten().expand(values.shape[0], -1)
        start = 0.0 if reduce == "sum" else -math.inf
        slots = values.new_full((values.shape[0], self.total_children + 1), start)
        slots = slots.scatter_reduce(1, where, values.flatten(1), reduce)
        return slots.gather(1, where).view_as(values)


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

    def tensor(self) -> Tensor:
        """All votes, `[B, 1, N, J, D]`."""
        return transform(self.pose, self.weight, matrix=self.matrix).unsqueeze(1)


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

    def tensor(self) -> Tensor:
        """All votes, `[B, 1, N, J, D]`."""
        # Every child is of the one type there is.
        return transform(self.pose.unsqueeze(2), self.weight.unsqueeze(0), matrix=self.matrix).squeeze(2)[
            :, None
        ]


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

    def tensor(self) -> Tensor:
        """All votes, `[B, 1, H·W·C, J, D]`."""
        pose = self.pose.unflatten(1, (-1, self.types))
        votes = transform(pose, self.weight, matrix=self.matrix)
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

    def tensor(self) -> Tensor:
        """All votes, `[B, P, K·K·C, J, D]`; zero where the field leaves the image."""
        assert self.index is not None
        outside = self.pose.new_zeros(self.batch, 1, self.pose.shape[2])
        field = torch.cat([self.pose, outside], 1).index_select(1, self.index.flatten())
        field = field.unflatten(1, self.index.shape)
        return transform(field, self.weight, matrix=self.matrix)

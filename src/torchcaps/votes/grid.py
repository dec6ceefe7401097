from __future__ import annotations

import torch
from torch import Tensor

from torchcaps._checks import check_count, check_floating, check_tensor
from torchcaps.poses import PoseSpace
from torchcaps.votes.base import Votes
from torchcaps.votes.pooled import PooledVotes


def check_padding(padding: int, kernel_size: int) -> int:
    """Check that padding is at least 0 and that every field still holds a child."""
    if check_count("padding", padding, minimum=0) >= kernel_size:
        raise ValueError(f"padding must be below kernel_size={kernel_size}, got {padding}")
    return padding


class ClassVotes(PooledVotes):
    """Every capsule of a grid votes for every class, with weights shared over positions.

    With `coordinates`, the position of the child, scaled to 0..1, is added to two numbers of its vote, so
    that sharing does not lose where it is: row and column go to the first two elements of the right-hand
    column of a matrix pose, or to the first two numbers of a vector pose.

    Shape: pose `[B, H, W, C, D_in]`, weight `[C, J, *weight_shape]`.

    Example:
        >>> ClassVotes(torch.ones(2, 4, 4, 3, 16), torch.ones(3, 5, 4, 4), "matrix").tensor().shape
        torch.Size([2, 1, 48, 5, 16])
    """

    def __init__(
        self, pose: Tensor, weight: Tensor, space: PoseSpace | str = "vector", *, coordinates: bool = True
    ) -> None:
        check_floating("weight", weight, 2)
        check_tensor("pose", pose, "B H W C D_in", C=weight.shape[0])
        super().__init__(pose.flatten(1, 3), weight, space)
        self.height, self.width, self.types = pose.shape[1:4]
        self.coordinates = coordinates
        if coordinates:
            check_coordinates(self.space)

    def offset(self) -> Tensor:
        """What coordinate addition adds to the votes of each position, `[H, W, D]`."""
        offset = self.pose.new_zeros(self.height, self.width, self.pose_dim)
        row_element, column_element = check_coordinates(self.space)
        rows = (torch.arange(self.height, device=offset.device, dtype=offset.dtype) + 0.5) / self.height
        columns = (torch.arange(self.width, device=offset.device, dtype=offset.dtype) + 0.5) / self.width
        offset[:, :, row_element] = rows[:, None]
        offset[:, :, column_element] = columns[None, :]
        return offset

    def with_weight(self, weight: Tensor, space: PoseSpace) -> Votes:
        """See `Votes.with_weight`; coordinates are not added to these votes."""
        votes = super().with_weight(weight, space)
        assert isinstance(votes, ClassVotes)
        votes.coordinates = False
        return votes

    def unfold(self) -> Tensor:
        """Poses by position and type, `[B, H·W, C, D_in]`."""
        return self.pose.unflatten(1, (-1, self.types))

    def compute(self, poses: Tensor) -> Tensor:
        """Votes `[B, 1, H·W·C, J, D]`."""
        votes = self.space.compose(poses, self.weight)
        if self.coordinates:
            votes = votes + self.offset().flatten(0, 1)[:, None, None]
        return votes.flatten(1, 2).unsqueeze(1)

    def _add_places(self, pooled: Tensor, share: Tensor, *, centered: bool) -> Tensor:
        """Coordinate addition, see `PooledVotes`."""
        if not self.coordinates:
            return pooled
        offset, share = self.offset().flatten(0, 1), share.sum(2)
        if centered:
            # All votes have this in common: shares that add up to 1 do not change it.
            middle = offset.mean(0)
            offset = offset - middle
            pooled = pooled + share.detach().sum(1).unsqueeze(-1) * middle
        return pooled + torch.einsum("bnj,nd->bjd", share, offset)

    def expand_rows(self, values: Tensor) -> Tensor:
        """See `Votes.expand_rows`: the same for every position."""
        return values.repeat(self.height * self.width, 1)[None, None]


def check_coordinates(space: PoseSpace) -> tuple[int, int]:
    """The two elements of a vote that take its row and column, if its space has any."""
    elements = space.coordinates()
    if elements is None:
        raise ValueError(f"{space!r} has no place for coordinates; set coordinates=False")
    return elements


class ConvVotes(Votes):
    """The capsules in a K×K field vote for the parents at its position.

    Children of a field are ordered by row, column, type. Where the padding reaches outside the image
    there is no child, hence no vote.

    Shape: pose `[B, H, W, C, D_in]`, weight `[K·K·C, J, *weight_shape]`; P is :math:`H' W'` with
    :math:`H' = \\lfloor (H + 2\\,padding - K) / stride \\rfloor + 1`.

    Example:
        >>> votes = ConvVotes(torch.ones(2, 7, 7, 3, 16), torch.ones(27, 5, 4, 4), "matrix",
        ...                   kernel_size=3, stride=2)
        >>> votes.grid, votes.tensor().shape
        ((3, 3), torch.Size([2, 9, 27, 5, 16]))
    """

    def __init__(
        self,
        pose: Tensor,
        weight: Tensor,
        space: PoseSpace | str = "vector",
        *,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
    ) -> None:
        check_count("kernel_size", kernel_size)
        check_count("stride", stride)
        check_padding(padding, kernel_size)
        check_floating("weight", weight, 2)
        types = weight.shape[0] // kernel_size**2  # not divmod, which torch.jit.trace does not know
        if types * kernel_size**2 != weight.shape[0]:
            raise ValueError(f"weight must have K·K·C rows with K={kernel_size}, got {weight.shape[0]}")
        check_tensor("pose", pose, "B H W C D_in", C=types)
        height, width = pose.shape[1:3]
        super().__init__(pose.flatten(1, 3), weight, space)
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.input_grid = (height, width)
        self.grid = (self._extent("height", height), self._extent("width", width))
        self.index = field_index((height, width, types), self.grid, kernel_size, stride, padding, pose.device)

    def _extent(self, side: str, size: int) -> int:
        extent = (size + 2 * self.padding - self.kernel_size) // self.stride + 1
        if extent < 1:
            raise ValueError(
                f"pose has {side} {size}: with padding {self.padding} no field of kernel_size "
                f"{self.kernel_size} fits; use a larger image or a smaller kernel"
            )
        return extent

    def unfold(self) -> Tensor:
        """Poses in the field of each position, `[B, P, K·K·C, D_in]`; zero where it leaves the image."""
        assert self.index is not None
        outside = self.pose.new_zeros(self.batch, 1, self.pose.shape[2])
        field = torch.cat([self.pose, outside], 1).index_select(1, self.index.flatten())
        return field.unflatten(1, self.index.shape)

    def compute(self, poses: Tensor) -> Tensor:
        """Votes `[B, P, K·K·C, J, D]`."""
        return self.space.compose(poses, self.weight)


_INDEX_CACHE: dict[tuple[object, ...], Tensor] = {}
_INDEX_CACHE_SIZE = 64


def field_index(
    children: tuple[int, int, int],
    grid: tuple[int, int],
    kernel_size: int,
    stride: int,
    padding: int,
    device: torch.device,
) -> Tensor:
    """Which child is at each place of each field, `[P, K·K·C]`; the number of children where none does.

    It depends on sizes alone, so a layer reads it from a cache after its first call.

    Args:
        children: height, width and types of the layer below.
        grid: height and width of this layer.
        kernel_size: K.
        stride: step of the field.
        padding: rows and columns by which the first field reaches outside the image.
        device: where the index is kept.
    """
    key = (children, grid, kernel_size, stride, padding, device)
    if key in _INDEX_CACHE and not torch.compiler.is_compiling():
        return _INDEX_CACHE[key]
    height, width, types = children
    within = torch.arange(kernel_size, device=device) - padding
    rows = torch.arange(grid[0], device=device)[:, None] * stride + within
    columns = torch.arange(grid[1], device=device)[:, None] * stride + within
    rows, columns = rows[:, None, :, None], columns[None, :, None, :]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    child = (rows * width + columns)[..., None] * types + torch.arange(types, device=device)
    index = torch.where(inside[..., None], child, height * width * types).flatten(0, 1).flatten(1)
    # Fake tensors and inference tensors must not be read by later calls outside their mode.
    if not torch.compiler.is_compiling() and type(index) is Tensor and not index.is_inference():
        if len(_INDEX_CACHE) >= _INDEX_CACHE_SIZE:
            _INDEX_CACHE.pop(next(iter(_INDEX_CACHE)), None)
        _INDEX_CACHE[key] = index
    return index

"""How kernels are launched: block sizes per architecture, and which votes belong to which child."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Table:
    """Block sizes of one architecture.

    Attributes:
        threads: threads of a warp.
        numbers: numbers of one tile of votes per thread; a kernel holds 6 to 14 such tiles.
        parents: parent types in a tile, at most.
        splits: most programs that share one sum; each has its own row of partial sums in memory.
    """

    threads: int
    numbers: int
    parents: int
    splits: int


# 8 numbers per thread: with 16, the backward pass needs more registers than a thread has.
TABLES = {
    "cuda:80": Table(threads=32, numbers=8, parents=32, splits=8),
    "cuda:90": Table(threads=32, numbers=8, parents=32, splits=8),
    "hip:gfx942": Table(threads=64, numbers=8, parents=32, splits=8),
    # The interpreter's cost is per operation and not per number.
    "interpreter": Table(threads=32, numbers=1024, parents=32, splits=2),
}
# The weights of a tile are loaded 4 numbers per thread, 16 bytes at once. The compiler makes this the layout
# of the whole tile, so the threads of a program are as many as that takes.
VECTOR = 4
# Architectures that have no row of their own.
DEFAULT = "cuda:80"

# Parents in a tile of the kernels that read no votes.
FIT_BLOCK = 32

# Places of a field that one program adds up, at least.
LEAST_SHARE = 32


@dataclass(frozen=True)
class Blocks:
    """Block sizes for one problem, all powers of 2.

    Attributes:
        lanes: pairs of sample and position in a tile of the kernels over parents.
        samples: samples in a tile of the kernels over children.
        children: children in a tile of the kernels over children.
        parents: parent types in a tile.
        size: numbers of a vote, padded.
        warps: warps per program.
        splits: most programs that share one sum.
    """

    lanes: int
    samples: int
    children: int
    parents: int
    size: int
    warps: int
    splits: int


class Launcher(Protocol):
    """Runs a kernel, or compiles it ahead of time."""

    def __call__(self, kernel: Any, grid: tuple[int, ...], arguments: dict[str, Any], warps: int) -> None:
        """Launch `kernel` once for each entry of the grid."""


def run(kernel: Any, grid: tuple[int, ...], arguments: dict[str, Any], warps: int) -> None:
    """Launch a kernel on the device of its tensors, or in the interpreter."""
    if min(grid) > 0:
        kernel[grid](**arguments, num_warps=warps, **compile_options(torch.version.hip is not None))


def compile_options(amd: bool) -> dict[str, Any]:
    """Options of the compiler, other than the number of warps."""
    # Products and sums are contracted only where the kernels say so. A vote then has the same bits in every
    # kernel, and so has its assignment: its sum over all parents of a child is 1.
    options = {"enable_fp_fusion": False}
    # With a limit, NVIDIA's assembler uses the registers that a kernel needs; without, it keeps a few numbers
    # on the stack to fit one more program.
    return options if amd else {**options, "maxnreg": 255}


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on CPU tensors."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def architecture(device: torch.device) -> str:
    """Name of the row of `TABLES` for this device."""
    if interpreted():
        return "interpreter"
    if device.type != "cuda":
        return DEFAULT
    if torch.version.hip:
        name = "hip:" + torch.cuda.get_device_properties(device).gcnArchName.split(":")[0]
    else:
        major, minor = torch.cuda.get_device_capability(device)
        name = f"cuda:{10 * major + minor}"
    return name if name in TABLES else DEFAULT


def choose_blocks(name: str, batch: int, children: int, positions: int, parents: int, size: int) -> Blocks:
    """Block sizes for a layer.

    Args:
        name: of the row of `TABLES`.
        batch: number of samples.
        children: number of children of the whole layer.
        positions: number of positions.
        parents: number of parent types.
        size: numbers in a vote.
    """
    table = TABLES[name]
    size = power_of_2(size)
    least = max(1, VECTOR * table.threads // size)
    parents = min(max(power_of_2(parents), least), max(table.parents, least))
    warps = max(1, parents * size // (VECTOR * table.threads))
    most = max(1, table.numbers * table.threads * warps // (parents * size))
    lanes = min(power_of_2(batch * positions), most)
    samples = min(power_of_2(batch), most)
    return Blocks(
        lanes, samples, min(most // samples, power_of_2(children)), parents, size, warps, table.splits
    )


def power_of_2(number: int) -> int:
    """The smallest power of 2 that is not less than `number`."""
    return 1 << max(0, number - 1).bit_length()


def ceil_div(number: int, divisor: int) -> int:
    """`number / divisor`, rounded up."""
    return -(-number // divisor)


def split(count: int, most: int, least: int) -> tuple[int, int]:
    """Share `count` items among programs: how many programs, and the items of each.

    Args:
        count: number of items.
        most: most programs.
        least: fewest items of a program, unless there are not as many.
    """
    share = max(ceil_div(count, most), min(least, count), 1)
    return max(1, ceil_div(count, share)), share


@dataclass(frozen=True)
class Wiring:
    """The votes of each child, the inverse of the index `[P, I]`.

    Attributes:
        index: `[P, I]` of int32, which child is at a place of the field of a position.
        start: `[N + 1]`, child n casts the votes `start[n]` to `start[n + 1] - 1`.
        vote: `[P · I]`, the entries of the index sorted by child, as `p · I + i`.
    """

    index: Tensor
    start: Tensor
    vote: Tensor


def invert(index: Tensor | None, children: int, pose: Tensor) -> Wiring | None:
    """Sort the entries of the index by child; `None` for one position with all children in order."""
    if index is None:
        return None
    child, order = index.to(device=pose.device, dtype=torch.int32).flatten().sort(stable=True)
    numbers = torch.arange(children + 1, device=child.device, dtype=child.dtype)
    start = torch.searchsorted(child, numbers, out_int32=True)
    return Wiring(index.to(device=pose.device, dtype=torch.int32), start, order.int())


def number_of_votes(wiring: Wiring | None, children: int, pose: Tensor) -> Tensor:
    """In how many fields each child is, `[N]` of float32."""
    if wiring is None:
        return torch.ones(children, device=pose.device)
    return (wiring.start[1:] - wiring.start[:-1]).float()


@dataclass
class Geometry:
    """Poses and weights of one call, who votes for whom, and how kernels go over them."""

    pose: Tensor
    weight: Tensor
    wiring: Wiring | None
    positions: int
    places: int
    blocks: Blocks
    launch: Launcher

    def __post_init__(self) -> None:
        self.batch, self.children = self.pose.shape[:2]
        self.rows, self.parents = self.weight.shape[:2]
        self.lanes = self.batch * self.positions
        self.per_sample = self.positions * self.parents
        self.count = self.batch * self.per_sample
        self.splits, self.share = split(self.places, self.blocks.splits, LEAST_SHARE)
        tiles = ceil_div(self.lanes, self.blocks.lanes) * (self.places // self.rows)
        self.weight_splits = split(tiles, self.blocks.splits, 1)
        self.choice_stride = 0
        self.constants: dict[str, Any] = {}

    @property
    def per_parent_shape(self) -> tuple[int, int, int]:
        """Shape of one number per parent."""
        return self.batch, self.positions, self.parents

    def empty(self, *shape: int) -> Tensor:
        """Uninitialized numbers in float32."""
        return torch.empty(shape, device=self.pose.device)

    def inputs(self, *names: str) -> dict[str, Tensor]:
        """Tensors by name; the pose for those that are absent, which a kernel does not read."""
        found = {name: getattr(self, name, getattr(self.wiring, name, None)) for name in names}
        return {name: self.pose if tensor is None else tensor for name, tensor in found.items()}

    def run(self, kernel: Any, grid: tuple[int, ...], inputs: dict[str, Tensor], **others: Any) -> None:
        """Launch a kernel."""
        self.launch(kernel, grid, inputs | others, self.blocks.warps)

    def per_parent(self, kernel: Any, inputs: dict[str, Tensor], **others: Any) -> None:
        """Launch a kernel once per block of parents, which reads no votes."""
        grid = (ceil_div(self.count, FIT_BLOCK),)
        self.run(kernel, grid, inputs, count=self.count, BLOCK=FIT_BLOCK, **others)

    def over_children(self, kernel: Any, inputs: dict[str, Tensor], **others: Any) -> None:
        """Launch a kernel once per block of children and samples."""
        blocks = self.blocks
        grid = (ceil_div(self.children, blocks.children), ceil_div(self.batch, blocks.samples))
        others |= {"batch": self.batch, "SAMPLES": blocks.samples, "CHILDREN": blocks.children}
        self._over_votes(kernel, grid, inputs, **others)

    def over_parents(self, kernel: Any, inputs: dict[str, Tensor], **others: Any) -> None:
        """Launch a kernel once per block of parents and split of their fields."""
        blocks = self.blocks
        grid = (ceil_div(self.lanes, blocks.lanes), ceil_div(self.parents, blocks.parents), self.splits)
        others |= {"lanes": self.lanes, "LANES": blocks.lanes, "share": self.share}
        self._over_votes(kernel, grid, inputs, **others)

    def over_weights(self, kernel: Any, inputs: dict[str, Tensor], parts: int = 1, **others: Any) -> None:
        """Launch a kernel once per part of a row of the weight, block of parents and split of their votes."""
        splits, share = self.weight_splits
        grid = (self.rows * parts, ceil_div(self.parents, self.blocks.parents), splits)
        others |= {"lanes": self.lanes, "LANES": self.blocks.lanes, "share": share}
        self._over_votes(kernel, grid, inputs, **others)

    def _over_votes(
        self, kernel: Any, grid: tuple[int, ...], inputs: dict[str, Tensor], **others: Any
    ) -> None:
        self.run(
            kernel, grid, inputs, children=self.children, positions=self.positions, places=self.places,
            parents=self.parents, rows=self.rows, choice_stride=self.choice_stride,
            HAS_INDEX=self.wiring is not None, PARENTS=self.blocks.parents, **self.constants, **others,
        )  # fmt: skip

"""Sizes of what the forward passes keep for the backward passes; this module does not import triton."""

from __future__ import annotations

# Numbers of one parent and iteration of EM: mean, its low part and variance (16 each), mass and logit.
EM_STATISTICS = 50

# Numbers of a vote, and of a child's pose, that fit into a tile of dynamic routing.
MOST_NUMBERS = 128


def em_statistics_shape(batch: int, iterations: int, parents: int, children: int) -> tuple[int, int, int]:
    """Shape of what EM keeps: 50 numbers per parent and 2 per child, for each iteration.

    Args:
        batch: number of samples.
        iterations: number of iterations.
        parents: number of parents at all positions.
        children: number of children.
    """
    return batch, iterations, aligned(EM_STATISTICS * parents + 2 * children)


def dynamic_totals_shape(
    batch: int, iterations: int, parents: int, size: int, children: int
) -> tuple[int, int, int]:
    """Shape of what dynamic routing keeps: inputs of squashes, guides and 2 numbers per child, per iteration.

    Args:
        batch: number of samples.
        iterations: number of iterations.
        parents: number of parents at all positions.
        size: numbers in a vote.
        children: number of children.
    """
    return batch, iterations, aligned(2 * parents * size + 2 * children)


def aligned(count: int) -> int:
    """Round up, so that rows start at multiples of 64 bytes and four numbers can be loaded at once."""
    return (count + 15) // 16 * 16

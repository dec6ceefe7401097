"""What changes when several processes train one model, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from torchcaps._extras import require
from torchcaps.data.batches import Batch


def make_accelerator(precision: str) -> Any:
    """Accelerate's view of the devices and processes at hand: a CPU, a GPU, or whatever torchrun started."""
    require("accelerate", extra="train", purpose="training")
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    # The state is kept for the process; a second training may want another precision.
    AcceleratorState._reset_state()
    cpu = not (torch.cuda.is_available() or torch.backends.mps.is_available())
    return Accelerator(
        mixed_precision="bf16" if usable_precision(precision, cpu) == "bf16" else "no", cpu=cpu
    )


def usable_precision(precision: str, cpu: bool) -> str:
    """The precision to train in: half where that was asked for and the processor multiplies in it.

    A CPU that does not would take many times as long for the same numbers, rounded worse. A recipe that asks
    for bf16 so runs everywhere.

    Example:
        >>> usable_precision("fp32", cpu=True), usable_precision("bf16", cpu=False)
        ('fp32', 'bf16')
    """
    if precision == "bf16" and cpu:
        able: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # older torch cannot tell
        return "bf16" if able.get("avx512_bf16") or able.get("amx_bf16") or able.get("bf16") else "fp32"
    return precision


def pieces(batch: Batch, count: int, total: int, processes: int) -> Iterator[tuple[Batch, float]]:
    r"""Split one process's part of a batch, each piece with the weight its mean loss must have.

    Losses are means over a piece, and data parallelism averages gradients over processes. With n images in
    the piece, N in the whole batch and P processes, weight P · n / N makes the sum of everything the mean
    over the whole batch, even where parts are not of the same size.

    A process whose part is empty still has to take part in the exchange of gradients: it gets one image of
    weight 0.

    Args:
        batch: this process's part.
        count: number of pieces.
        total: images in the whole batch, N.
        processes: P.

    Example:
        >>> part = Batch(torch.zeros(3, 1, 2, 2), torch.zeros(3).long(), torch.arange(3))
        >>> [(len(piece.labels), weight) for piece, weight in pieces(part, 2, total=6, processes=2)]
        [(2, 0.6666666666666666), (1, 0.3333333333333333)]
    """
    size = len(batch.labels)
    if size == 0:
        shapes = [(1, *tensor.shape[1:]) for tensor in batch]
        yield Batch(*(tensor.new_zeros(shape) for tensor, shape in zip(batch, shapes))), 0.0
        return
    each = -(-size // min(count, size))
    for parts in zip(*(tensor.split(each) for tensor in batch)):
        yield Batch(*parts), processes * len(parts[1]) / total


def agreed(accelerator: Any, decision: str, choices: tuple[str, ...]) -> str:
    """What the main process decided; its clock and signals are the ones that count."""
    if accelerator.num_processes == 1:
        return decision
    number: Tensor = torch.tensor(choices.index(decision), device=accelerator.device)
    from accelerate.utils import broadcast

    return choices[int(broadcast(number))]

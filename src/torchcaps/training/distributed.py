"""What several processes that train one model must share, in one place."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import nn

from torchcaps._extras import require
from torchcaps.data.batches import Batch

T = TypeVar("T")


def make_accelerator(precision: str) -> Any:
    """Accelerate's view of devices and processes: a CPU, a GPU, or the processes that torchrun started."""
    require("accelerate", extra="train", purpose="training")
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    # The state belongs to the Python process; a second training may need another precision.
    AcceleratorState._reset_state()
    cpu = not (torch.cuda.is_available() or torch.backends.mps.is_available())
    accelerator = Accelerator(
        mixed_precision="bf16" if usable_precision(precision, cpu) == "bf16" else "no", cpu=cpu
    )
    if accelerator.num_processes > 1:
        # A process that exits with open connections can abort, or make another one abort.
        atexit.unregister(close_connections)
        atexit.register(close_connections)
    return accelerator


def close_connections() -> None:
    """End the process group, if there is one."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def usable_precision(precision: str, cpu: bool) -> str:
    """The precision to train in: bf16 where it is requested and the processor has instructions for it.

    A CPU without them would take many times as long for the same numbers, rounded worse. So a recipe that
    requests bf16 runs everywhere.

    Example:
        >>> usable_precision("fp32", cpu=True), usable_precision("bf16", cpu=False)
        ('fp32', 'bf16')
    """
    if precision == "bf16" and cpu:
        # Older versions of torch do not have this function.
        features: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
        return "bf16" if any(features.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16")) else "fp32"
    return precision


def split_batch(batch: Batch, count: int, total: int, processes: int) -> Iterator[tuple[Batch, float]]:
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
        >>> [(len(piece.labels), weight) for piece, weight in split_batch(part, 2, total=6, processes=2)]
        [(2, 0.6666666666666666), (1, 0.3333333333333333)]
    """
    size = len(batch.labels)
    if size == 0:
        shapes = [(1, *tensor.shape[1:]) for tensor in batch]
        yield Batch(*(tensor.new_zeros(shape) for tensor, shape in zip(batch, shapes))), 0.0
        return
    piece_size = -(-size // min(count, size))
    for parts in zip(*(tensor.split(piece_size) for tensor in batch)):
        yield Batch(*parts), processes * len(parts[1]) / total


def broadcast_choice(accelerator: Any, choose: Callable[[], T]) -> T:
    """What `choose` returns on the main process, on all of them; it is not called on the others.

    Clocks, signals and file systems may differ between processes, so one of them decides.
    """
    if accelerator.num_processes == 1:
        return choose()
    from accelerate.utils import broadcast_object_list

    choice = [choose() if accelerator.is_main_process else None]
    return broadcast_object_list(choice)[0]


def broadcast_weights(accelerator: Any, model: nn.Module) -> None:
    """Give all processes the parameters and buffers of the main one."""
    if accelerator.num_processes == 1:
        return
    from accelerate.utils import broadcast

    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.copy_(broadcast(tensor.contiguous()))

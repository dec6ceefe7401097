"""Counts what a training step does, operator by operator, on tensors that have sizes and no memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from torch.utils.module_tracker import ModuleTracker

from torchcaps.kernels.triton.launch import LEAST_SHARE, TABLES, split

OTHER = "(other)"
SPLITS = TABLES["cuda:80"].splits


@dataclass
class Count:
    """What one layer does in a step.

    Attributes:
        flop: floating-point operations.
        moved: bytes that its operators read and write, each tensor once per operator.
        seconds: time at the peak rate and bandwidth of a GPU, if one is named.
        held: bytes that it has allocated and that are still in use.
        peak: the most that `held` was.
    """

    flop: float = 0.0
    moved: float = 0.0
    seconds: float = 0.0
    held: int = 0
    peak: int = 0


class Meter(TorchDispatchMode):
    """Adds up operations, bytes and memory of each layer, in forward and backward passes.

    Inside a `FakeTensorMode`, sizes of any batch are counted on any machine. Reading a value gives 0.

    Args:
        layers: modules by name; everything else is counted as `(other)`.
        rate: operations per second of a GPU, for times and for the memory of the Triton kernels.
        bandwidth: its bytes per second.
    """

    def __init__(
        self, layers: Mapping[str, nn.Module] | None = None, *, rate: float = 0.0, bandwidth: float = 0.0
    ) -> None:
        super().__init__()
        self.rate, self.bandwidth = rate, bandwidth
        self.counts: dict[str, Count] = {}
        self.held = self.peak = 0
        self.watch(layers or {})
        self._known: set[int] = set()
        self._tracker = ModuleTracker()

    def watch(self, layers: Mapping[str, nn.Module]) -> None:
        """Count these layers from now on."""
        self.layers = layers

    def start(self) -> None:
        """Forget operations, times and peaks, but not what is held."""
        # The hooks of a tracker keep some tensors of a step until it is left.
        self._tracker.__exit__(None, None, None)
        self._tracker = ModuleTracker()
        self._tracker.__enter__()
        self.peak = self.held
        for count in self.counts.values():
            count.flop = count.moved = count.seconds = 0.0
            count.peak = count.held

    def __enter__(self) -> Meter:
        self._tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._tracker.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and count it."""
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default:
            return 0
        out = func(*args, **kwargs)
        count = self.counts.setdefault(self._layer(), Count())
        inputs, outputs = list(_tensors((args, kwargs))), list(_tensors(out))
        if not func.is_view and "empty" not in func.name():
            flop, moved = operations(func, args, kwargs, out, inputs, outputs), _bytes([*inputs, *outputs])
            count.flop += flop
            count.moved += moved
            if self.rate:
                count.seconds += max(flop / self.rate, moved / self.bandwidth)
        for tensor in outputs:
            self._hold(tensor, count)
        extra = workspace(func, args) if self.rate else 0
        self.peak = max(self.peak, self.held + extra)
        count.peak = max(count.peak, count.held + extra)
        return out

    def _layer(self) -> str:
        # The tracker names modules "Model.layer.part"; the names of layers have no model before them.
        inside = {name.partition(".")[2] for name in self._tracker.parents}
        return max((name for name in self.layers if name in inside), key=len, default=OTHER)

    def _hold(self, tensor: Tensor, count: Count) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._known.add(key)
        self.held += size
        count.held += size

        def release() -> None:
            self._known.discard(key)
            self.held -= size
            count.held -= size

        weakref.finalize(storage, release)


def _tensors(values: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor))


def _bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of tensors; an expanded one is read from what it was expanded from."""
    return sum(min(t.numel() * t.element_size(), t.untyped_storage().nbytes()) for t in tensors)


def operations(
    func: Any, args: Any, kwargs: Any, out: Any, inputs: list[Tensor], outputs: list[Tensor]
) -> float:
    """Floating-point operations of one operator: products by their formulas, others one per number."""
    packet = func._overloadpacket
    if packet in flop_registry:
        return float(flop_registry[packet](*args, **kwargs, out_val=out))
    if func.name() in FUSED:
        return FUSED[func.name()](args)
    return float(max((t.numel() for t in [*inputs, *outputs] if t.is_floating_point()), default=0))


def _em(args: Any, per_number: Callable[[int], float]) -> float:
    pose, _, weight, _, _, index, _, temperatures = args[:8]
    places = pose.shape[1] if index is None else index.numel()
    return 16.0 * pose.shape[0] * places * weight.shape[1] * per_number(len(temperatures))


def _dynamic(args: Any, per_number: Callable[[int, int], float]) -> float:
    pose, weight, _, index, _, iterations = args[:6]
    places = pose.shape[1] if index is None else index.numel()
    return (
        pose.shape[0] * places * weight.shape[1] * weight.shape[3] * per_number(weight.shape[2], iterations)
    )


# Operations of the kernels for GPUs, per number of the votes [B, P, I, J, D] that they compute again in every
# pass: 2 K for the vote (K = 4 for 4×4 matrices), a few for what is done with it. docs/triton.md has them.
FUSED: dict[str, Callable[[Any], float]] = {
    "torchcaps::em_forward": lambda args: _em(args, lambda t: (8 + 4) * 2 * t + (8 + 4) * (t - 1) + 4 * t),
    "torchcaps::em_backward": lambda args: _em(args[4:], lambda t: t * (4 * (8 + 8) + 2 * 8)),
    "torchcaps::dynamic_forward": lambda args: _dynamic(args, lambda k, t: (2 * k + 2) * (2 * t - 1)),
    "torchcaps::dynamic_backward": lambda args: _dynamic(
        args[2:], lambda k, t: t * (4 * (2 * k + 4) + 4 * k)
    ),
}


def workspace(func: Any, args: Any) -> int:
    """Bytes that the Triton kernels of an operator use besides its outputs."""
    name = func.name()
    if name not in FUSED:
        return 0
    backward = name.endswith("backward")
    if "em" in name.split("::")[1]:
        pose, _, weight, _, _, index = (args[4:] if backward else args)[:6]
        size, fixed = 16, 48 + 1 + (48 + 3 + 3 if backward else 16)
    else:
        pose, weight, _, index = (args[2:] if backward else args)[:4]
        size, fixed = weight.shape[3], 2 * weight.shape[3] if backward else 0
    positions, places = (1, pose.shape[1]) if index is None else index.shape
    count = pose.shape[0] * positions * weight.shape[1]
    splits = split(places, SPLITS, LEAST_SHARE)[0]
    per_split = 2 * size + 1 if "em" in name else size
    numbers = count * (fixed + splits * per_split) + pose.shape[0] * pose.shape[1]
    if backward:
        numbers += SPLITS * weight.numel()
    return 4 * numbers

"""Compile every Triton kernel ahead of time, without a GPU, and print registers, spills and shared memory.

python benchmarks/triton_resources.py                      # the table of docs/triton.md
python benchmarks/triton_resources.py --target sm_80 --layer "EM, class 4×4" --json
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel

from torchcaps.kernels.triton import dynamic, em
from torchcaps.kernels.triton.launch import compile_options

TARGETS = {
    "sm_80": (GPUTarget("cuda", 80, 32), "cuda:80"),
    "sm_90": (GPUTarget("cuda", 90, 32), "cuda:90"),
    "gfx942": (GPUTarget("hip", "gfx942", 64), "hip:gfx942"),
}
TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.int32: "*i32"}


@dataclass(frozen=True)
class Resources:
    """What one kernel needs on one target: registers per thread, bytes of spills, bytes of shared memory."""

    layer: str
    kernel: str
    variant: str
    target: str
    registers: int
    spills: int
    shared: int


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


def em_layer(
    batch: int, children: int, parents: int, rows: int, field: tuple[int, int] | None, *,
    offset: bool = False, mixing: bool = False, iterations: int = 3, dtype: torch.dtype = torch.float32,
) -> Callable[..., None]:  # fmt: skip
    """Both passes of EM routing, on tensors that have sizes and no memory."""

    def layer(launch: Callable[..., None], architecture: str) -> None:
        index = None if field is None else meta(*field, dtype=torch.int64)
        beta = (None, None) if mixing else (meta(parents), meta(parents))
        places = meta(-(-children // rows), 16) if offset else None
        arguments = (
            meta(batch, children, 16, dtype=dtype), meta(batch, children),
            meta(rows, parents, 4, 4, dtype=dtype), *beta, index, places, [0.1] * iterations, 1.0, 1e-6,
        )  # fmt: skip
        *outputs, statistics = em.em_forward(*arguments, launch=launch, architecture=architecture)
        em.em_backward(*outputs, statistics, *arguments, launch=launch, architecture=architecture)

    return layer


def dynamic_layer(
    batch: int, children: int, parents: int, size_in: int, size_out: int, *, shared: bool = False,
    field: tuple[int, int] | None = None, dtype: torch.dtype = torch.float32,
) -> Callable[..., None]:  # fmt: skip
    """Both passes of dynamic routing, on tensors that have sizes and no memory."""

    def layer(launch: Callable[..., None], architecture: str) -> None:
        index = None if field is None else meta(*field, dtype=torch.int64)
        rows = 1 if shared else children if field is None else field[1]
        arguments = (
            meta(batch, children, size_in, dtype=dtype), meta(rows, parents, size_in, size_out, dtype=dtype),
            None, index, shared, 3, True, False, True,
        )  # fmt: skip
        found = dynamic.dynamic_forward(*arguments, launch=launch, architecture=architecture)
        dynamic.dynamic_backward(*found, *arguments, launch=launch, architecture=architecture)

    return layer


# The layers of both papers' networks, and geometries and types that these do not have.
LAYERS: dict[str, Callable[..., None]] = {
    "EM, conv 14→6": em_layer(16, 14 * 14 * 32, 32, 288, (36, 288)),
    "EM, conv 6→4": em_layer(16, 6 * 6 * 32, 32, 288, (16, 288)),
    "EM, class 4×4": em_layer(16, 4 * 4 * 32, 5, 32, None, offset=True),
    "EM, dense, mixing": em_layer(16, 64, 10, 64, None, mixing=True),
    "EM, shared, bfloat16": em_layer(16, 64, 10, 1, None, dtype=torch.bfloat16),
    "EM, conv, one image": em_layer(1, 6 * 6 * 32, 32, 288, (16, 288)),
    "dynamic, dense 8→16": dynamic_layer(128, 1152, 10, 8, 16),
    "dynamic, shared, bfloat16": dynamic_layer(32, 256, 10, 8, 16, shared=True, dtype=torch.bfloat16),
    "dynamic, conv 6→4": dynamic_layer(16, 6 * 6 * 32, 32, 8, 16, field=(16, 288)),
}


def launches(layer: Callable[..., None], architecture: str) -> list[tuple[Any, dict[str, Any], int]]:
    """Kernel, arguments and warps of every launch of a layer."""
    found: list[tuple[Any, dict[str, Any], int]] = []

    def record(kernel: Any, grid: tuple[int, ...], arguments: dict[str, Any], warps: int) -> None:
        found.append((kernel, arguments, warps))

    layer(record, architecture)
    return found


def type_of(value: Any) -> str:
    if isinstance(value, Tensor):
        return TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def compile_kernel(kernel: Any, arguments: dict[str, Any], warps: int, target: GPUTarget) -> CompiledKernel:
    """Compile as a launch with these arguments would."""
    constants = {p.name: arguments[p.name] for p in kernel.params if p.is_constexpr}
    signature, attributes = {}, {}
    for number, name in enumerate(kernel.arg_names):
        value = arguments[name]
        if name not in constants and isinstance(value, int) and value == 1:
            constants[name] = 1
        signature[name] = "constexpr" if name in constants else type_of(value)
        # Memory of PyTorch is aligned, but a view need not be.
        number_of_16 = value.storage_offset() * value.element_size() if isinstance(value, Tensor) else value
        if name not in constants and isinstance(number_of_16, int) and number_of_16 % 16 == 0:
            attributes[(number,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature, constants, attributes)
    options = {"num_warps": warps, **compile_options(target.backend == "hip")}
    return triton.compile(source, target=target, options=options)


def resources_of(binary: CompiledKernel, target: GPUTarget) -> tuple[int, int, int]:
    """Registers, bytes of spills, and bytes of shared memory."""
    if target.backend == "hip":
        text = binary.asm["amdgcn"]
        fields = ("vgpr_count", "vgpr_spill_count", "group_segment_fixed_size")
        registers, spills, shared = (int(re.search(rf"\.{name}: +(\d+)", text)[1]) for name in fields)  # type: ignore[index]
        return registers, 4 * spills, max(shared, binary.metadata.shared)
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        text = subprocess.run(
            [tool, "--dump-resource-usage", file.name], check=True, capture_output=True, text=True
        ).stdout
    registers, stack, local = (
        int(re.search(rf"{name}:(\d+)", text)[1]) for name in ("REG", "STACK", "LOCAL")
    )  # type: ignore[index]
    return registers, stack + local, binary.metadata.shared


def measure(layers: list[str], targets: list[str]) -> Iterator[Resources]:
    """Compile every kernel of these layers, each variant once per target."""
    for target_name in targets:
        target, architecture = TARGETS[target_name]
        for layer in layers:
            done: set[tuple[str, str]] = set()
            for kernel, arguments, warps in launches(LAYERS[layer], architecture):
                name = kernel.__name__
                flags = [p.name for p in kernel.params if p.is_constexpr and arguments[p.name] is True]
                variant = " ".join(flag for flag in flags if not flag.startswith("HAS"))
                if (name, variant) in done:
                    continue
                done.add((name, variant))
                numbers = resources_of(compile_kernel(kernel, arguments, warps, target), target)
                yield Resources(layer, name, variant.lower(), target_name, *numbers)


def table(found: list[Resources]) -> str:
    """A Markdown table with a column per target: registers, spills if any, and KiB of shared memory."""
    targets = list(dict.fromkeys(row.target for row in found))
    lines = ["| layer | kernel | " + " | ".join(targets) + " |", "|---|---|" + "---|" * len(targets)]
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in found:
        label = f"`{row.kernel}`" + (f" {row.variant}" if row.variant else "")
        spills = f", **{row.spills} B spilled**" if row.spills else ""
        text = f"{row.registers}{spills}, {row.shared / 1024:.1f} KiB"
        cells.setdefault((row.layer, label), {})[row.target] = text
    for (layer, label), by_target in cells.items():
        lines.append(f"| {layer} | {label} | " + " | ".join(by_target.get(t, "") for t in targets) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=TARGETS, action="append", help="all by default")
    parser.add_argument("--layer", choices=LAYERS, action="append", help="all by default")
    parser.add_argument("--json", action="store_true", help="print JSON and no table")
    options = parser.parse_args()
    found = list(measure(options.layer or list(LAYERS), options.target or list(TARGETS)))
    print(json.dumps([asdict(row) for row in found]) if options.json else table(found))
    if any(row.spills for row in found):
        print("some kernels spill registers", file=sys.stderr)


if __name__ == "__main__":
    main()

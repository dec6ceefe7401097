"""What `torchcaps doctor` finds: versions, kernels and why (not) used, data, extras, a self-test."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from torchcaps import __version__, kernels
from torchcaps._cache import cache_dir
from torchcaps._machine import processor_name

# What an extra is for, and a module that shows whether it is installed.
EXTRAS = {
    "train": ("training and the command line", "accelerate"),
    "figures": ("figures of experiments", "matplotlib"),
    "lab": ("the lab in the browser", "fastapi"),
    "serve": ("the server for predictions", "fastapi"),
    "export": ("ONNX files", "onnxscript"),
    "hub": ("networks on the Hugging Face hub", "huggingface_hub"),
    "sklearn": ("CapsuleClassifier", "sklearn"),
    "sweep": ("torchcaps sweep --search", "optuna"),
    "tensorboard": ("TensorBoard logs", "tensorboard"),
    "wandb": ("torchcaps train --track wandb", "wandb"),
    "mlflow": ("torchcaps train --track mlflow", "mlflow"),
    "timm": ("backbones by name", "timm"),
    "triton": ("fused routing on a GPU", "triton"),
}
PACKAGES = ("torch", "numpy", "safetensors", "triton", "accelerate", "torchvision", "timm")
VARIABLES = ("TORCHCAPS_", "OMP_", "MKL_", "CUDA_", "HIP_", "TRITON_", "TORCH_", "PYTORCH_")

Rows = dict[str, str]


def versions() -> Rows:
    """Versions of torchcaps, Python, the system and the packages that matter.

    >>> versions()["torchcaps"] == __version__
    True
    """
    found = {"torchcaps": __version__, "python": sys.version.split()[0], "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def devices() -> Rows:
    """Processor, threads and GPUs."""
    found = {
        "processor": processor_name(),
        "cores": str(os.cpu_count()),
        "threads": str(torch.get_num_threads()),
    }
    built = torch.version.cuda or torch.version.hip
    found["PyTorch is built for"] = (
        f"CUDA {built}" if torch.version.cuda else f"ROCm {built}" if built else "CPU"
    )
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(number)
        found[f"cuda:{number}"] = f"{facts.name}, {facts.total_memory / 2**30:.0f} GiB"
    return found


def fused_kernels() -> Rows:
    """Which fused kernels are used, and why or why not."""
    status = kernels.status()
    found = {
        "enabled": f"{'yes' if status.enabled else 'no'} ({status.reason})",
        "C++": f"built, {status.instruction_set}, {status.threads} threads" if status.built else "not built",
        "Triton": "available" if status.gpu == "triton" else status.gpu,
    }
    for number, reason in enumerate(status.plain_on_gpu, 1):
        found[f"plain form on a GPU, reason {number}"] = reason
    return found


def data_sets() -> Rows:
    """Which data sets have their files here, by a look at folders alone; nothing is fetched."""
    folders = [cache_dir()]
    if os.environ.get("TORCHCAPS_DATA"):
        folders.append(type(folders[0])(os.environ["TORCHCAPS_DATA"]).expanduser())
    found: Rows = {}
    for folder in folders:
        try:
            names = sorted(each.name for each in folder.iterdir() if each.is_dir() and any(each.iterdir()))
        except OSError:
            names = []
        found[str(folder)] = (
            ", ".join(name for name in names if not name.startswith(".")) or "empty or missing"
        )
    return found


def extras() -> Rows:
    """Which extras are installed, and how to install the others."""
    return {
        name: f"installed ({purpose})"
        if find_spec(module)
        else f'missing ({purpose}): pip install "torchcaps[{name}]"'
        for name, (purpose, module) in EXTRAS.items()
    }


def environment() -> Rows:
    """Environment variables that change what torchcaps or PyTorch do."""
    # The table is pasted into issues, so secrets are left out.
    return {
        name: "(hidden)" if "TOKEN" in name else value
        for name, value in sorted(os.environ.items())
        if name.startswith(VARIABLES)
    }


def self_test() -> Rows:
    """A small training step of a network of each kind, plain and fused: does it run, and do both agree?"""
    from torchcaps.losses import margin_loss
    from torchcaps.models import create_model

    found: Rows = {}
    for name in ("capsnet_small", "matrix_capsnet_small"):
        started = time.perf_counter()
        try:
            torch.manual_seed(0)
            model = create_model(name, image_size=28)
            images, target = torch.rand(2, 1, 28, 28), torch.tensor([3, 7])
            losses, slopes = [], []
            for use in (kernels.disabled, kernels.enabled if kernels.status().built else kernels.disabled):
                with use():
                    loss = margin_loss(model(images, target).scores, target)
                    model.zero_grad()
                    loss.backward()
                losses.append(loss.item())
                norms = [p.grad.norm() for p in model.parameters() if p.grad is not None]
                slopes.append(float(torch.stack(norms).norm()))
            close = abs(losses[0] - losses[1]) <= 1e-4 and abs(slopes[0] / slopes[1] - 1) <= 1e-2
            what = "agree" if close else f"DIFFER: loss {losses[0]} and {losses[1]}, gradient {slopes}"
            found[name] = f"plain and fused {what}, {time.perf_counter() - started:.1f} s"
        except Exception as error:  # the report must be complete, whatever is broken
            found[name] = f"FAILED: {type(error).__name__}: {' '.join(str(error).split())}"
    return found


def gpu_check() -> Rows:
    """The kernels for GPUs beside the plain form, on all layers of the self-check, on every GPU."""
    if not torch.cuda.is_available():
        return {"GPU": "not found, nothing was compared"}
    status = kernels.status()
    if status.gpu != "triton":
        return {"GPU": status.gpu}
    found: Rows = {}
    for number in range(torch.cuda.device_count()):
        found |= check_device(torch.device("cuda", number))
    return found


def check_device(device: torch.device) -> Rows:
    """The self-check on one device: for each layer the largest difference, as a share of what is allowed."""
    from torchcaps.routing.self_check import check

    found: Rows = {}
    worst: dict[str, float] = {}
    for each in check(device, everything=True):
        name = f"{device}, {each.case}"
        share = each.difference / each.allowed if each.allowed else 0.0
        if not each.agrees:
            found[name] = f"DIFFERS: {each}"
        elif name not in found:
            worst[name] = max(worst.get(name, 0.0), share)
    return {name: f"agrees ({100 * share:.0f} % of the tolerance)" for name, share in worst.items()} | found


PARTS: dict[str, Callable[[], Rows]] = {
    "versions": versions,
    "devices": devices,
    "fused kernels": fused_kernels,
    "data": data_sets,
    "extras": extras,
    "environment": environment,
    "self-test": self_test,
}


def examine(*, kernels_too: bool = False) -> dict[str, Any]:
    """Everything, by part.

    Args:
        kernels_too: also compare the kernels for GPUs with the plain form, on all layers of the self-check.
    """
    parts = PARTS | ({"kernels on GPUs": gpu_check} if kernels_too else {})
    return {name: part() for name, part in parts.items()}

"""A notice for those who would train many times slower than they could."""

from __future__ import annotations

import logging

import torch
from torch import nn

from torchcaps.kernels import dispatch
from torchcaps.routing import Routing

LOGGER = logging.getLogger(__name__)


def notice_plain_form(model: nn.Module, device: torch.device) -> None:
    """Log a warning if a routing of this model has a fused form that cannot be used on this device.

    Nothing is said to those who turned the kernels off themselves.
    """
    reason = dispatch.why_missing(device)
    has_kernel = any(
        isinstance(each, Routing) and type(each).fused is not Routing.fused for each in model.modules()
    )
    if reason and has_kernel and not dispatch.turned_off():
        LOGGER.warning(f"routing runs in its plain form (EM up to 14 times slower): {reason}")

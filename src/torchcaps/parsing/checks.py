"""Checks of what is parsed, with sentences in place of errors from deep inside of a network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchcaps.models import Model, PartsCapsNet

# Pixels are mostly in 0..1; standardized ones are farther from 0, but hardly by this much.
_FAR = 64.0


def check_network(model: object) -> None:
    """Check that `model` is a network.

    >>> check_network("capsnet_small-mnist")
    Traceback (most recent call last):
    ValueError: model must be a torch.nn.Module, got str: Predictor.load(name).model is one
    """
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model must be a torch.nn.Module, got {type(model).__name__}: Predictor.load(name).model is one"
        )


def check_parts_network(model: object) -> None:
    """Check that `model` finds parts and wholes.

    >>> check_parts_network(nn.Linear(1, 1))
    Traceback (most recent call last):
    ValueError: model must be a PartsCapsNet, got Linear
    """
    if not isinstance(model, PartsCapsNet):
        raise ValueError(f"model must be a PartsCapsNet, got {type(model).__name__}")


def check_pixels(images: Tensor, model: nn.Module) -> None:
    """Check that pixels are finite, and near 0..1 if the network is one of torchcaps.

    Another network may have been trained on pixels in 0..255.

    >>> check_pixels(torch.full((1, 1, 8, 8), torch.nan), nn.Identity())
    Traceback (most recent call last):
    ValueError: images must hold finite numbers, and 64 of 64 pixels are NaN or infinite
    """
    if not images.numel():
        return
    wrong = images.numel() - int(torch.isfinite(images).sum())
    if wrong:
        raise ValueError(
            f"images must hold finite numbers, and {wrong} of {images.numel()} pixels are NaN or infinite"
        )
    low, high = float(images.min()), float(images.max())
    if isinstance(model, Model) and max(-low, high) > _FAR:
        raise ValueError(
            f"images must be prepared as in training, mostly in 0..1, and hold values from {low:g} to "
            f"{high:g}: divide pixels in 0..255 by 255"
        )

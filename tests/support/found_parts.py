"""A `PartsCapsNet` with new weights that finds something."""

import torch

from torchcaps.models import PartsCapsNet


def find_something(model: PartsCapsNet) -> None:
    """Let new weights find parts, and take nearly any parts for a whole, and wholes for a group."""
    with torch.no_grad():
        assert model.detector.presence.bias is not None
        model.detector.presence.bias.fill_(1.0)
        for layer in (model.wholes, model.groups):
            if layer is not None:
                layer.log_sigma.fill_(0.5)
                layer.filled_logit.fill_(0.0)
                layer.log_background = -30.0

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    r"""An exponential moving average of a model's parameters.

    .. math:: \bar w \leftarrow d_t \bar w + (1 - d_t) w, \qquad d_t = \min(d, (1 + t) / (10 + t))

    The decay starts low, so that the random initial weights are soon forgotten.

    Args:
        model: whose parameters are averaged; buffers are taken as they are.
        decay: d; with 0 the average is the model itself and costs nothing.

    Example:
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> average = WeightAverage(layer, 0.5)
        >>> before = layer.weight.item()
        >>> _ = nn.init.constant_(layer.weight, before + 1)
        >>> average.update(100)
        >>> with average.applied():
        ...     round(layer.weight.item() - before, 4)
        0.5
        >>> round(layer.weight.item() - before, 4)
        1.0
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.parameters = list(model.parameters()) if decay else []
        self.average = [parameter.detach().clone() for parameter in self.parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights after update number `step`."""
        if self.decay:
            decay = min(self.decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self.average, [p.detach() for p in self.parameters], 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the averaged weights for a while."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, average in zip(self.parameters, self.average):
            kept = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(kept)

    def state(self) -> dict[str, Tensor]:
        """The averages by number."""
        return {str(number): tensor for number, tensor in enumerate(self.average)}

    @torch.no_grad()
    def load(self, state: dict[str, Tensor]) -> None:
        """Go on from what `state` gave; a run that had no average starts one from its weights."""
        for number, tensor in enumerate(self.average):
            if str(number) in state:
                tensor.copy_(state[str(number)])
            else:
                tensor.copy_(self.parameters[number].detach())

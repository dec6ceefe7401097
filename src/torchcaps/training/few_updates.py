"""A notice for those whose run would end before the network has learned anything."""

from __future__ import annotations

import logging

from torchcaps._words import counted
from torchcaps.training.recipe.schema import TrainingPart

LOGGER = logging.getLogger(__name__)
# After so many updates at usual learning rates, networks of this package are still near chance.
FEW = 50


def notice_few_updates(training: TrainingPart, batches: int) -> None:
    """Log a warning if a run updates its weights a few times only.

    Args:
        training: how long it trains, and in which batches.
        batches: of an epoch.
    """
    updates = training.epochs * batches
    if updates < FEW:
        LOGGER.warning(
            f"the weights will be updated {counted(updates, 'time')} only "
            f"({counted(training.epochs, 'epoch')} of {counted(batches, 'batch', 'batches')} of "
            f"{training.batch_size}), too few to learn much: set a higher training.epochs or a lower "
            "training.batch_size"
        )

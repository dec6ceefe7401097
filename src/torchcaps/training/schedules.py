from __future__ import annotations

import math

from torchcaps.training.recipe import SchedulePart


def learning_rate_factor(schedule: SchedulePart, step: int, total_steps: int) -> float:
    """What the base learning rate is multiplied by at a step: a plain function, so that nothing is stored.

    Args:
        schedule: its name and numbers.
        step: updates done before this one.
        total_steps: updates in the whole training; the cosine reaches 0 there, and at the end of every round.

    Example:
        >>> decay = SchedulePart(name="exponential", factor=0.96, every=2000)
        >>> [round(learning_rate_factor(decay, step, 9000), 4) for step in (0, 1000, 2000, 4000)]
        [1.0, 0.9798, 0.96, 0.9216]
        >>> cosine = SchedulePart(name="cosine", warmup_steps=10)
        >>> [round(learning_rate_factor(cosine, step, 110), 3) for step in (0, 9, 10, 60, 110)]
        [0.1, 1.0, 1.0, 0.5, 0.0]
        >>> twice = SchedulePart(name="cosine", rounds=2)
        >>> [round(learning_rate_factor(twice, step, 200), 3) for step in (0, 50, 99, 100, 150, 200)]
        [1.0, 0.5, 0.0, 1.0, 0.5, 0.0]
    """
    if step < schedule.warmup_steps:
        return (step + 1) / schedule.warmup_steps
    since = step - schedule.warmup_steps
    if schedule.name == "exponential":
        return schedule.factor ** (since / schedule.every)
    if schedule.name == "cosine":
        # Rounds are as long whether or not the first begins with a rise, so that one more fits behind them.
        length = max(1, total_steps / schedule.rounds)
        rounds_done = step / length
        if rounds_done >= schedule.rounds:
            progress = 1.0
        elif rounds_done < 1:
            progress = since / max(1, length - schedule.warmup_steps)
        else:
            progress = rounds_done % 1
        return 0.5 * (1 + math.cos(math.pi * progress))
    return 1.0

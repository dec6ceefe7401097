"""A search of the space with Optuna, instead of all combinations."""

from __future__ import annotations

from statistics import mean
from typing import Any

from torchcaps._checks import check_count
from torchcaps._extras import require
from torchcaps.sweep.run import Sweep
from torchcaps.sweep.space import Range
from torchcaps.sweep.summary import Row


def run_search(sweep: Sweep, trials: int) -> dict[str, Any]:
    """Try `trials` combinations that Optuna's TPE sampler proposes; all seeds of each are run.

    The sampler has a fixed seed and is told the mean validation accuracy of each combination. So a search
    that is called again proposes the same combinations, finds their runs finished, and goes on from there.

    Returns:
        The summary, which is also in `sweep.json`.

    Raises:
        MissingExtraError: Optuna is not installed.
    """
    check_count("--search", trials)
    optuna = require("optuna", extra="sweep", purpose="--search")
    sweep.check()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    rows: list[Row] = []
    for number in range(1, trials + 1):
        trial = study.ask()
        row = sweep.run_values(propose(trial, sweep), number, trials)
        rows.append(row)
        if row.validation and not row.failures:
            study.tell(trial, mean(row.validation))
        else:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        summary = sweep.write(rows)
    return summary


def propose(trial: Any, sweep: Sweep) -> dict[str, Any]:
    """The values that Optuna proposes next; numbers of a range have four digits."""
    values: dict[str, Any] = {}
    for key, choices in sweep.space.items():
        if not isinstance(choices, Range):
            # Optuna stores choices as plain values, so lists are chosen by their place.
            values[key] = choices[trial.suggest_categorical(key, list(range(len(choices))))]
        elif isinstance(choices.low, int) and isinstance(choices.high, int):
            values[key] = trial.suggest_int(key, choices.low, choices.high, log=choices.is_log)
        else:
            number = trial.suggest_float(key, choices.low, choices.high, log=choices.is_log)
            values[key] = float(f"{number:.4g}")
    return values

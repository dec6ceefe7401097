from __future__ import annotations

from importlib import import_module

from torchcaps._registry import suggest
from torchcaps.experiments.workbench.claim import Claim

# In the order in which one would tell the story.
NAMES = (
    "two-digits",
    "perturb",
    "overlap",
    "affine",
    "ablation",
    "viewpoints",
    "adversarial",
    "votes",
    "clustering",
    "fixed-point",
    "boats",
    "equivariance",
    "transforming",
)


def find_claim(name: str) -> Claim:
    """The experiment with that name.

    >>> find_claim("two-digit")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: unknown experiment 'two-digit': did you mean 'two-digits'? Known: ...
    """
    if name not in NAMES:
        raise ValueError(f"unknown experiment {name!r}: {suggest(name, NAMES)}")
    return import_module(f"torchcaps.experiments.{name.replace('-', '_')}").CLAIM


def list_claims() -> list[Claim]:
    """All experiments."""
    return [find_claim(name) for name in NAMES]

from __future__ import annotations

from importlib import import_module

from torchcaps._registry import suggest
from torchcaps.experiments.framework.study import Claim

# Name of each experiment, as in `torchcaps reproduce NAME`, and its module; from easy to hard to understand.
MODULES = {
    "two-digits": "two_digits",
    "perturb": "perturb",
    "overlap": "overlap",
    "affine": "affine",
    "ablation": "ablation",
    "viewpoints": "viewpoints",
    "adversarial": "adversarial",
    "votes": "vote_agreement",
    "implicit": "implicit",
    "clustering": "clustering",
    "fixed-point": "fixed_point",
    "iterations": "iterations",
    "squash": "squash",
    "reconstruction": "reconstruction",
    "less-data": "less_data",
    "boats": "boats",
    "equivariance": "equivariance",
    "transforming": "transforming",
    "wholes": "wholes.claims.wholes",
    "scrambled": "wholes.claims.scrambled",
    "few": "wholes.claims.few",
    "poses": "wholes.claims.poses",
    "crowds": "wholes.claims.crowds",
    "hierarchy": "wholes.claims.hierarchy",
    "solids": "wholes.claims.solids",
    "parts-unlabeled": "wholes.unlabeled",
}


def find_claim(name: str) -> Claim:
    """The experiment with that name.

    >>> find_claim("two-digit")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: unknown experiment 'two-digit': did you mean 'two-digits'? Known: ...
    """
    if name not in MODULES:
        raise ValueError(f"unknown experiment {name!r}: {suggest(name, MODULES)}")
    return import_module(f"torchcaps.experiments.{MODULES[name]}").CLAIM


def list_claims() -> list[Claim]:
    """All experiments."""
    return [find_claim(name) for name in MODULES]

"""The papers' claims as experiments: one file per claim, each ends in numbers, figures and a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchcaps.lazy import lazy_names

if TYPE_CHECKING:
    from torchcaps.experiments.claim import Claim
    from torchcaps.experiments.listing import find_claim, list_claims
    from torchcaps.experiments.running import reproduce
    from torchcaps.experiments.study import Study

_HOME = {
    "Claim": "claim",
    "Study": "study",
    "find_claim": "listing",
    "list_claims": "listing",
    "reproduce": "running",
}
__all__ = ["Claim", "Study", "find_claim", "list_claims", "reproduce"]

__getattr__, __dir__ = lazy_names(__name__, _HOME)

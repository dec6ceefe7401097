"""The papers' claims as experiments: one file per claim, each ends in numbers, figures and a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchcaps.lazy import lazy_names

if TYPE_CHECKING:
    from torchcaps.experiments.listing import find_claim, list_claims
    from torchcaps.experiments.workbench.claim import Claim
    from torchcaps.experiments.workbench.running import reproduce
    from torchcaps.experiments.workbench.study import Study

_HOME = {
    "Claim": "workbench.claim",
    "Study": "workbench.study",
    "find_claim": "listing",
    "list_claims": "listing",
    "reproduce": "workbench.running",
}
__all__ = ["Claim", "Study", "find_claim", "list_claims", "reproduce"]

__getattr__, __dir__ = lazy_names(__name__, _HOME)

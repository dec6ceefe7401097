from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchcaps.experiments.workbench.study import Study


@dataclass(frozen=True)
class Claim:
    """Something a paper or an essay says of capsules, and the experiment that tries it.

    Attributes:
        name: what `torchcaps reproduce` calls it.
        claim: what is said, in one sentence.
        source: who says it, and where.
        data: what the full form needs, such as `"MNIST"`.
        quick_data: what `--quick` runs on: nothing that must be fetched.
        minutes: how long the full form is estimated to take on 2 CPU cores.
        run: does it all, and leaves what it found with the study.
    """

    name: str
    claim: str
    source: str
    data: str
    quick_data: str
    minutes: int
    run: Callable[[Study], None]

"""Fused forms of a (votes, routing) pair that never build the vote tensor; `routing` is their specification.

They are taken by themselves where they fit: on the CPU, in float32 or float64, if nobody asks for couplings.
`TORCHCAPS_KERNELS=off` (or `with disabled():`) turns them off, `on` makes it an error if they are missing,
and `status()` returns what is in force.
"""

from torchcaps.kernels.dispatch import Status, disabled, enabled, status

__all__ = ["Status", "disabled", "enabled", "status"]

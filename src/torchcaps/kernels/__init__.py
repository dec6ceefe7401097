"""Fused forms of a (votes, routing) pair that never build the vote tensor; `routing` is their specification.

They are taken by themselves where they fit: on the CPU, in float32 or float64, if nobody asks for couplings.
`TORCHCAPS_KERNELS=off` (or `disabled()`) turns them off, `on` makes their absence an error, `status()` tells.
"""

from torchcaps.kernels.choice import Status, disabled, status

__all__ = ["Status", "disabled", "status"]

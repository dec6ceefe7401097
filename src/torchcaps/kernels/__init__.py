"""Fused routing kernels, which compute the same as `torchcaps.routing` without storing the votes.

They are used automatically where they fit: on the CPU, in float32 or float64, if couplings are not requested.
`TORCHCAPS_KERNELS=off` or `with disabled():` turns them off, `TORCHCAPS_KERNELS=on` makes it an error if they
are missing, and `status()` returns whether they are enabled.
"""

from torchcaps.kernels.dispatch import Status, disabled, enabled, status

__all__ = ["Status", "disabled", "enabled", "status"]

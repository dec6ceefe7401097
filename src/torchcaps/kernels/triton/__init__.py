"""Fused routing kernels for GPUs, in Triton; docs/triton.md describes them.

On a GPU, the operators of `torchcaps.kernels.em` and `torchcaps.kernels.dynamic` call the functions of the
same names in `em` and `dynamic`. These functions run on CPU tensors too, if `TRITON_INTERPRET=1` is in the
environment before triton is imported.

This package and its modules `launch` and `sizes` do not import triton; the others do.
"""

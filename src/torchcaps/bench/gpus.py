"""Peak rates of a few GPUs, for estimates. They were not compared with the makers' data sheets yet."""

from __future__ import annotations

from typing import NamedTuple


class GPU(NamedTuple):
    """A GPU.

    Attributes:
        teraflops: float32 operations per second outside of the matrix units, in 10¹²; routing is in float32.
        bandwidth: of the memory, in 10⁹ bytes per second.
        memory: in GiB.
        link: to other GPUs of the same machine, one direction, in 10⁹ bytes per second.
    """

    teraflops: float
    bandwidth: float
    memory: int
    link: float


GPUS = {
    "T4": GPU(8.1, 320, 16, 16),
    "V100": GPU(15.7, 900, 32, 150),
    "A100": GPU(19.5, 2039, 80, 300),
    "H100": GPU(67.0, 3350, 80, 450),
    "L4": GPU(30.3, 300, 24, 32),
    "RTX4090": GPU(82.6, 1008, 24, 32),
    "MI300X": GPU(163.4, 5300, 192, 448),
}

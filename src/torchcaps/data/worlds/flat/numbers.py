from __future__ import annotations

import math
import zlib

import numpy as np

BLOCK = 512


class SceneNumbers:
    """Random numbers for N scenes: each scene has its own generator, seeded by its name and index alone.

    Scenes are composed for a whole batch at once from arrays whose row n comes from generator n. A scene is
    therefore the same in a batch of any size.

    Args:
        name: of the random numbers, such as `"shapes/single/train"`; other names give other numbers.
        seed: any whole number from 0.
        indices: of the scenes.

    Example:
        >>> whole = SceneNumbers("example", 0, range(10)).uniform(0, 1, 3)
        >>> alone = SceneNumbers("example", 0, range(7, 8)).uniform(0, 1, 3)
        >>> whole.shape, bool((whole[7] == alone[0]).all())
        ((10, 3), True)
    """

    def __init__(self, name: str, seed: int, indices: range) -> None:
        key = zlib.crc32(name.encode())
        self._generators = [np.random.default_rng((key, seed, index)) for index in indices]
        self._unused = np.empty((len(indices), 0))

    def __len__(self) -> int:
        return len(self._generators)

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
        """Uniform numbers in [low, high), float64 `[N, *shape]`."""
        return low + (high - low) * self._take(*shape)

    def integers(self, below: int, *shape: int) -> np.ndarray:
        """Whole numbers from 0 to `below` - 1, int64 `[N, *shape]`."""
        return (self._take(*shape) * below).astype(np.int64)

    def normal(self, *shape: int) -> np.ndarray:
        """Normal numbers, float32 `[N, *shape]`."""
        return np.stack([generator.standard_normal(shape, np.float32) for generator in self._generators])

    def _take(self, *shape: int) -> np.ndarray:
        count = math.prod(shape)
        while self._unused.shape[1] < count:
            block = np.stack([generator.random(BLOCK) for generator in self._generators])
            self._unused = np.concatenate([self._unused, block], axis=1)
        numbers, self._unused = self._unused[:, :count], self._unused[:, count:]
        return numbers.reshape(len(self), *shape)

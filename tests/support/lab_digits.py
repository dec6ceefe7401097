"""The digits on which sentences of the lab are tested."""

from base64 import b64decode
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from torchcaps.lab import schemas
from torchcaps.lab.examples import load_examples

COUNT = 40


def pixels(text: str) -> np.ndarray:
    """The bytes of a response."""
    return np.frombuffer(b64decode(text), np.uint8).astype(float)


@lru_cache
def digits() -> list[schemas.ExampleDigit]:
    """Four digits of each class."""
    examples = load_examples().digits
    return [digit for digit in examples if examples.index(digit) % 8 < 4]


def count(holds: Callable[[schemas.ExampleDigit], bool]) -> int:
    """For how many digits a sentence holds."""
    assert len(digits()) == COUNT
    return sum(holds(digit) for digit in digits())

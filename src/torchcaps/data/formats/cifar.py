"""CIFAR-10's binary format: records of one label byte and 3×32×32 pixel bytes, nothing else.

The binary form is read rather than the Python one, whose files would have to be unpickled.
"""

from __future__ import annotations

import os

import numpy as np

from torchcaps.errors import DataError

SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
NUM_CLASSES = 10


def parse_cifar(
    content: bytearray, path: str | os.PathLike[str], records: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Parse a batch file: images uint8 `[N, 3, 32, 32]` and labels uint8 `[N]`.

    Args:
        content: of the file.
        path: names the file in errors.
        records: how many there must be, if known.

    Raises:
        DataError: the content is not such a file.

    Example:
        >>> images, labels = parse_cifar(bytearray([3]) + bytes(3072), "one.bin")
        >>> images.shape, labels.tolist()
        ((1, 3, 32, 32), [3])
    """
    count, rest = divmod(len(content), RECORD)
    if rest or not count:
        raise DataError.in_file(path, f"{len(content)} bytes are not a whole number of {RECORD}-byte records")
    if records is not None and count != records:
        raise DataError.in_file(path, f"{count} records; {records} were expected")
    table = np.frombuffer(content, np.uint8).reshape(count, RECORD)
    labels = table[:, 0].copy()
    if labels.max() >= NUM_CLASSES:
        first = int(np.argmax(labels >= NUM_CLASSES))
        raise DataError.in_file(path, f"record {first} has label {labels[first]}; 0 to 9 are possible")
    return np.ascontiguousarray(table[:, 1:]).reshape(count, *SHAPE), labels


def format_cifar(images: np.ndarray, labels: np.ndarray) -> bytes:
    """Make the content of a batch file from images uint8 `[N, 3, 32, 32]` and labels uint8 `[N]`.

    >>> len(format_cifar(np.zeros((2, 3, 32, 32), np.uint8), np.zeros(2, np.uint8)))
    6146
    """
    if images.shape != (len(labels), *SHAPE) or images.dtype != np.uint8 or labels.dtype != np.uint8:
        raise ValueError(
            f"expected uint8 images [N, 3, 32, 32] and uint8 labels [N], got {images.dtype} "
            f"{list(images.shape)} and {labels.dtype} {list(labels.shape)}"
        )
    return np.concatenate([labels[:, None], images.reshape(len(labels), RECORD - 1)], axis=1).tobytes()

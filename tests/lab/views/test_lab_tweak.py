"""Strips of reconstructions: one number of a pose is changed at a time."""

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

Post = Callable[..., dict[str, Any]]
POSE = [round(0.05 * (number % 7 - 3), 2) for number in range(16)]


def strips_of(response: dict[str, Any]) -> np.ndarray:
    """Images `[dimensions, offsets, 28, 28]`."""
    return np.frombuffer(b64decode(response["strips"]), np.uint8).reshape(16, 11, 28, 28) / 255


def test_the_offsets_are_those_of_the_paper(post: Post) -> None:
    np.testing.assert_allclose(post("tweak", pose=POSE, target=3)["offsets"], np.arange(-5, 6) / 20)


def test_the_middle_of_each_strip_is_the_pose_itself(post: Post) -> None:
    response = post("tweak", pose=POSE, target=3)
    middle = strips_of(response)[:, 5]
    np.testing.assert_allclose(middle, np.broadcast_to(response["reconstruction"], middle.shape), atol=3e-3)


@pytest.mark.parametrize(("dimension", "column"), [(0, 0), (6, 3), (15, 10)])
def test_a_picture_shows_the_pose_with_one_number_changed(post: Post, dimension: int, column: int) -> None:
    response = post("tweak", pose=POSE, target=3)
    changed = list(POSE)
    changed[dimension] += response["offsets"][column]
    expected = post("tweak", pose=changed, target=3)["reconstruction"]
    np.testing.assert_allclose(strips_of(response)[dimension, column], expected, atol=3e-3)

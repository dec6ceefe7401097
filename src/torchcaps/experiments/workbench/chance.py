"""What may be chance: how far two shares of counted images can lie apart without meaning anything."""

from __future__ import annotations


def chance(one: float, other: float, count: int, other_count: int | None = None) -> float:
    """Two standard errors of the difference of two shares in percent, `2 √(p(100−p)/n + q(100−q)/m)`.

    A difference below it may well be chance. The images of both shares are taken as drawn independently;
    where both networks saw the same images, which makes differences smaller, this errs on the careful side.

    Args:
        one: a share in percent, such as an error.
        other: the share it is compared with.
        count: images that the first was counted on.
        other_count: images that the second was counted on, if another number.

    Example:
        >>> round(chance(50.0, 50.0, 200), 1)
        10.0
    """
    variances = ((one, count), (other, other_count or count))
    return 2 * sum(share * (100 - share) / max(1, images) for share, images in variances) ** 0.5


def ahead(one: float, other: float, count: int) -> bool:
    """Whether one share in percent is larger than another by more than chance, both of `count` images.

    >>> ahead(100.0, 50.0, 100), ahead(51.0, 50.0, 100)
    (True, False)
    """
    return one - other > chance(one, other, count)

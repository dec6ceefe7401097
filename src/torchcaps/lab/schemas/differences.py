"""How often the two networks of a view differ."""

from __future__ import annotations

from torchcaps.lab.schemas.responses import Response, TwoFractions


class Outcomes(Response):
    """For how many of `count` inputs something holds for both networks, for one of them, or for neither."""

    count: int
    both: int
    capsules: int
    cnn: int
    neither: int


class VotePlaces(Response):
    """Squares of the grid on ink of one digit alone, over `pairs` of digits that were named right.

    `right` of `squares` send more to that digit than to the other; `clear` squares have at least half of the
    full color on the page.
    """

    pairs: int
    squares: int
    right: int
    clear: int
    clear_right: int


class PoseMoves(Response):
    """How far a full turn and all lightings move the pose of a toy: medians over `count` test toys.

    Both are shares of the norm of the pose. For `more_by_turn` toys, the turn moves it farther.
    """

    count: int
    more_by_turn: int
    turn: float
    light: float


class WholeCounts(Response):
    """What both networks for parts and wholes find in test scenes with the sizes and places of the lab.

    `scrambled`: the capsules find no whole, and no score of the CNN is one half. `intact`, of pictures of one
    whole: the capsules find a whole, and a score of the CNN is one half. `named`, of the same: the highest
    score is right. `scale` and `offset` are the ranges of the pictures of one whole, in halves of the image.
    """

    scale: TwoFractions
    offset: TwoFractions
    scrambled: Outcomes
    intact: Outcomes
    named: Outcomes


class AttackChanges(Response):
    """For how many of `count` digits an attack with each ε changes the answer of each network."""

    count: int
    epsilons: list[float]
    capsules: list[int]
    cnn: list[int]


class DifferencesResponse(Response):
    """Measured once, on inputs that were chosen at random or all of a list.

    `overlap` and `toy`: whose answer is right. `attack`, by method: whose prediction the smaller ε changes,
    `both` at the same. `changes`, by method: how many answers are changed at each ε. `compare`, by method:
    whose answer an attack with `compare_epsilon` changes.
    """

    overlap: Outcomes
    places: VotePlaces
    toy: Outcomes
    attack: dict[str, Outcomes]
    changes: dict[str, AttackChanges]
    compare: dict[str, Outcomes]
    compare_epsilon: float
    wholes: dict[str, WholeCounts]
    poses: PoseMoves

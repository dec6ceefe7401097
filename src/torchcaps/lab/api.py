"""The addresses of the JSON API, each answered by one function of a view."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header
from starlette.responses import Response

from torchcaps import __version__, kernels
from torchcaps.data.worlds.toys import CATEGORIES
from torchcaps.lab import answers, schemas
from torchcaps.lab.attack import attack
from torchcaps.lab.clusters import clusters
from torchcaps.lab.draw import draw, tweak
from torchcaps.lab.examples import examples
from torchcaps.lab.overlap import overlap
from torchcaps.lab.toy import toy, toys
from torchcaps.lab.votes import votes
from torchcaps.lab.weights import Shelf
from torchcaps.lab.worker import Worker

Session = Annotated[
    str | None,
    Header(
        alias="X-Session",
        max_length=64,
        description="any name of one's own: of its requests that wait at one address, the newest wins",
    ),
]
FAULTS: dict[int | str, dict[str, Any]] = {
    400: {"model": answers.Fault, "description": "The library refused it, and says why"},
    409: {"model": answers.Fault, "description": "A newer request of the same session came"},
    413: {"model": answers.Fault, "description": "The body is too large"},
    422: {"model": answers.Fault, "description": "The request is not as described here"},
    429: {"model": answers.Fault, "description": "Too many requests are waiting"},
    503: {"model": answers.Fault, "description": "The weights for this are missing"},
}


def encode(answer: Any) -> bytes:
    """JSON; NaN, which JSON does not have, is an error."""
    return json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()


def create_api(shelf: Shelf, worker: Worker) -> APIRouter:
    """All addresses under /api."""
    api = APIRouter(prefix="/api", responses=FAULTS)
    sheet = encode(examples())
    turntable = encode(toys(shelf))

    async def work(path: str, session: str | None, view: Callable[..., Any], *asked: Any) -> Response:
        key = None if session is None else (session, path)
        future = worker.submit(key, lambda: encode(view(*asked)))
        return as_json(await asyncio.wrap_future(future))

    @api.get("/status", response_model=answers.StatusAnswer)
    async def read_status() -> Response:
        """What the lab runs on: version, kernels, and the networks it has weights for."""
        return as_json(encode(status(shelf)))

    @api.get("/examples", response_model=answers.ExamplesAnswer)
    async def read_examples() -> Response:
        """Digits of the MNIST test set."""
        return as_json(sheet)

    @api.post("/draw", response_model=answers.DrawAnswer)
    async def read_digit(asked: schemas.DrawQuestion, session: Session = None) -> Response:
        """Read a digit: capsule lengths, poses, the reconstruction, and couplings per iteration."""
        return await work("draw", session, draw, shelf, asked)

    @api.post("/tweak", response_model=answers.TweakAnswer)
    async def draw_pose(asked: schemas.TweakQuestion, session: Session = None) -> Response:
        """Draw a class capsule as if it had this pose."""
        return await work("tweak", session, tweak, shelf, asked)

    @api.post("/overlap", response_model=answers.OverlapAnswer)
    async def read_two_digits(asked: schemas.OverlapQuestion, session: Session = None) -> Response:
        """Read two digits that lie over each other, with capsules and with a CNN."""
        return await work("overlap", session, overlap, shelf, asked)

    @api.post("/votes", response_model=answers.VotesAnswer)
    async def cluster_votes(asked: schemas.VotesQuestion, session: Session = None) -> Response:
        """Project the votes for a digit to the plane, and follow a routing through its iterations."""
        return await work("votes", session, votes, shelf, asked)

    @api.get("/toys", response_model=answers.ToysAnswer)
    async def list_toys() -> Response:
        """The toys there are, and which views training saw."""
        return as_json(turntable)

    @api.post("/toy", response_model=answers.ToyAnswer)
    async def read_toy(asked: schemas.ToyQuestion, session: Session = None) -> Response:
        """Render a toy from anywhere, and read it with matrix capsules and with a CNN."""
        return await work("toy", session, toy, shelf, asked)

    @api.post("/clusters", response_model=answers.ClustersAnswer)
    async def cluster_points(asked: schemas.ClustersQuestion, session: Session = None) -> Response:
        """Fit clusters to points, with the code that routes capsules."""
        return await work("clusters", session, clusters, asked)

    @api.post("/attack", response_model=answers.AttackAnswer)
    async def attack_digit(asked: schemas.AttackQuestion, session: Session = None) -> Response:
        """Attack a digit by the fast gradient sign method, for capsules and for a CNN."""
        return await work("attack", session, attack, shelf, asked)

    return api


def as_json(body: bytes) -> Response:
    """A body that is JSON already; it was encoded by the worker, where time is kept for it."""
    return Response(body, media_type="application/json")


def status(shelf: Shelf) -> dict[str, Any]:
    """What the lab runs on."""
    use = kernels.status()
    return {
        "version": __version__,
        "kernels": f"fused, {use.instruction_set}" if use.enabled else f"plain: {use.reason}",
        "models": shelf.describe(),
        "classes": {"digits": [str(digit) for digit in range(10)], "toys": list(CATEGORIES)},
    }

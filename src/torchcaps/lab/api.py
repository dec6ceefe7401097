"""The endpoints of the JSON API; each calls one function of a view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response

from torchcaps import __version__, kernels
from torchcaps.data.worlds.toys import CATEGORIES
from torchcaps.lab import schemas
from torchcaps.lab.differences import load_differences
from torchcaps.lab.errors import MissingWeightsResponse
from torchcaps.lab.examples import load_examples
from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.run import LabRun
from torchcaps.lab.views import attack, clusters, compare, draw, overlap, parts, toy, votes
from torchcaps.lab.views import run as run_view
from torchcaps.lab.worker import Worker
from torchcaps.web.errors import ErrorResponse
from torchcaps.web.waiting import CLIENT_CLOSED, wait_unless_disconnected

Session = Annotated[
    str | None,
    Header(
        alias="X-Session",
        max_length=64,
        description="any text that identifies a client: its newest request to an endpoint replaces "
        "older ones that still wait",
    ),
]


NetworkName = Annotated[
    str, Query(min_length=1, max_length=100, description="`id` of a network in the status")
]
Place = Annotated[int, Query(ge=0, le=2**53)]


class Sender(NamedTuple):
    """Who sent a request.

    Attributes:
        session: the client's own name for itself.
        http: the request, to detect that the client closed its connection.
    """

    session: str | None
    http: Request


async def sender(http: Request, session: Session = None) -> Sender:
    """The sender of the current request."""
    return Sender(session, http)


Client = Annotated[Sender, Depends(sender)]
ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorResponse, "description": "The library rejected the values"},
    409: {"model": ErrorResponse, "description": "Superseded by a newer request of the same session"},
    413: {"model": ErrorResponse, "description": "The body is too large"},
    422: {"model": ErrorResponse, "description": "The request does not match its schema"},
    429: {"model": ErrorResponse, "description": "Too many requests are waiting"},
    503: {"model": MissingWeightsResponse, "description": "The weights of a network are not installed"},
}


def create_api(store: ModelStore, worker: Worker, lab_run: LabRun | None = None) -> APIRouter:
    """All endpoints under /api; those of a run only if there is one."""
    api = APIRouter(prefix="/api", responses=ERRORS)
    examples_body = schemas.to_json(load_examples())
    toys_body = schemas.to_json(toy.list_toys(store))
    differences_body = schemas.to_json(load_differences())

    async def run(
        endpoint: str, client: Sender, view: Callable[..., schemas.Response], *arguments: Any
    ) -> Response:
        key = None if client.session is None else (client.session, endpoint)
        # Encoded in the worker thread too, so that the event loop stays free.
        future = worker.submit(key, lambda: schemas.to_json(view(*arguments)))
        result = asyncio.wrap_future(future)
        try:
            if not await wait_unless_disconnected(result, client.http):
                return Response(status_code=CLIENT_CLOSED)  # nobody receives it
            return json_response(result.result())
        finally:
            worker.remove(future)  # nothing happens to a job that has run

    @api.get("/status", response_model=schemas.StatusResponse)
    async def status() -> Response:
        """Return the version, the kernels in use, and the loaded networks."""
        return json_response(schemas.to_json(describe(store, lab_run)))

    @api.get("/examples", response_model=schemas.ExamplesResponse)
    async def list_examples() -> Response:
        """Return digits of the MNIST test set."""
        return json_response(examples_body)

    @api.get("/differences", response_model=schemas.DifferencesResponse)
    async def list_differences() -> Response:
        """Return how often the two networks of a view differ, over many inputs."""
        return json_response(differences_body)

    @api.post("/draw", response_model=schemas.DrawResponse)
    async def recognize_digit(request: schemas.DrawRequest, client: Client) -> Response:
        """Recognize a digit: capsule lengths, poses, the reconstruction, and the couplings per iteration."""
        return await run("draw", client, draw.recognize, store, request)

    @api.post("/capsule", response_model=schemas.CapsuleResponse)
    async def inspect_capsule(request: schemas.CapsuleRequest, client: Client) -> Response:
        """Return the votes of one primary capsule for a digit."""
        return await run("capsule", client, draw.inspect_capsule, store, request)

    @api.post("/tweak", response_model=schemas.TweakResponse)
    async def reconstruct_pose(request: schemas.TweakRequest, client: Client) -> Response:
        """Reconstruct a digit from the pose of its class capsule, and with each of its numbers changed."""
        return await run("tweak", client, draw.reconstruct, store, request)

    @api.post("/overlap", response_model=schemas.OverlapResponse)
    async def recognize_two_digits(request: schemas.OverlapRequest, client: Client) -> Response:
        """Recognize two overlapping digits, with a capsule network and with a CNN."""
        return await run("overlap", client, overlap.recognize, store, request)

    @api.post("/votes", response_model=schemas.VotesResponse)
    async def route_votes(request: schemas.VotesRequest, client: Client) -> Response:
        """Route the votes for a digit, and return how well they agree with the best classes."""
        return await run("votes", client, votes.route, store, request)

    @api.post("/twins", response_model=schemas.TwinsResponse)
    async def compare_twins(request: schemas.DrawRequest, client: Client) -> Response:
        """Route the votes for a digit with four networks that differ in their routing."""
        return await run("twins", client, votes.compare, store, request)

    @api.get("/toys", response_model=schemas.ToysResponse)
    async def list_toys() -> Response:
        """Return the available toys and viewpoints, and those used in training."""
        return json_response(toys_body)

    @api.post("/toy", response_model=schemas.ToyResponse)
    async def recognize_toy(request: schemas.ToyRequest, client: Client) -> Response:
        """Render a toy, and recognize it with matrix capsules and with a CNN."""
        return await run("toy", client, toy.recognize, store, request)

    @api.post("/turn", response_model=schemas.ToyTurnResponse)
    async def turn_toy(request: schemas.ToyTurnRequest, client: Client) -> Response:
        """Return the pose of a toy's class from every azimuth, and how far a turn and the light move it."""
        return await run("turn", client, toy.turn, store, request)

    @api.get("/shapes", response_model=schemas.ShapesResponse)
    async def list_shapes(world: schemas.WorldName = "shapes") -> Response:
        """Return the parts and wholes that scenes of a world can be made of."""
        # Made on first use, in a thread: it takes a moment.
        shapes = await asyncio.to_thread(parts.list_shapes, world)
        return json_response(schemas.to_json(shapes))

    @api.post("/parts", response_model=schemas.PartsResponse)
    async def read_scene(request: schemas.PartsRequest, client: Client) -> Response:
        """Draw parts, and find parts, wholes and groups in the picture."""
        return await run("parts", client, parts.read, store, request)

    @api.post("/clusters", response_model=schemas.ClustersResponse)
    async def fit_clusters(request: schemas.ClustersRequest, client: Client) -> Response:
        """Fit clusters to points, with the routing algorithms of the library."""
        return await run("clusters", client, clusters.fit, request)

    @api.post("/attack", response_model=schemas.AttackResponse)
    async def attack_digit(request: schemas.AttackRequest, client: Client) -> Response:
        """Attack a digit with changes of every size, for a capsule network and for a CNN."""
        return await run("attack", client, attack.attack, store, request)

    @api.post("/compare", response_model=schemas.CompareResponse)
    async def compare_networks(request: schemas.CompareRequest, client: Client) -> Response:
        """Show two networks the same image, and attack each of them."""
        return await run("compare", client, compare.compare, store, request)

    @api.get("/inputs", response_model=schemas.InputsResponse)
    async def list_inputs(network: NetworkName, client: Client) -> Response:
        """Return images that suit a network."""
        return await run(f"inputs/{network}", client, compare.inputs, store, network)

    if lab_run is None:
        return api

    @api.get("/run", response_model=schemas.RunResponse)
    async def describe_run(client: Client) -> Response:
        """Return what the run trains, and whether it goes on; loads its newest weights."""
        return await run("run", client, run_view.describe, lab_run, store)

    @api.get("/run/images", response_model=schemas.InputsResponse)
    async def list_run_images(client: Client) -> Response:
        """Return some test images of the run."""
        return await run("run/images", client, run_view.images, lab_run)

    @api.get("/run/metrics", response_model=schemas.RunMetricsResponse)
    async def read_run_metrics(after: Place = 0, session: Place = 0) -> Response:
        """Return the metrics that were written since the last request."""
        # Not in the worker, which may be busy with a network for a while.
        return json_response(schemas.to_json(await asyncio.to_thread(lab_run.metrics, after, session)))

    @api.post("/run/image", response_model=schemas.RunImageResponse)
    async def read_run_image(request: schemas.RunImageRequest, client: Client) -> Response:
        """Classify an image with the network of the run, and show its capsules."""
        return await run("run/image", client, run_view.read, lab_run, request)

    return api


def json_response(body: bytes) -> Response:
    """A response whose body is encoded already."""
    return Response(body, media_type="application/json")


def describe(store: ModelStore, lab_run: LabRun | None) -> schemas.StatusResponse:
    """Version, kernels, loaded networks and class names."""
    kernel = kernels.status()
    return schemas.StatusResponse(
        version=__version__,
        kernels=f"fused, {kernel.instruction_set}" if kernel.enabled else f"plain: {kernel.reason}",
        models=store.info(),
        classes=schemas.ClassNames(
            digits=[str(digit) for digit in range(schemas.NUM_CLASSES)], toys=list(CATEGORIES)
        ),
        run=None if lab_run is None else lab_run.name,
    )

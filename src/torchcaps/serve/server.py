"""The server for predictions as an ASGI application."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import torch
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, HTTPException, Query, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from torchcaps import __version__
from torchcaps.serve.batching import Batcher, QueueFullError
from torchcaps.serve.images import ImageReader, UnreadableImageError
from torchcaps.serve.schemas import (
    MAX_IMAGES,
    HealthResponse,
    ImagePrediction,
    InfoResponse,
    Limits,
    PredictRequest,
    PredictResponse,
)
from torchcaps.training.prediction import Prediction, Predictor
from torchcaps.web.errors import ErrorResponse, add_error_handlers, error_response
from torchcaps.web.middleware import AllowedHosts, BearerToken, BodySizeLimit, SecurityHeaders
from torchcaps.web.waiting import CLIENT_CLOSED, wait_unless_disconnected

HEALTH = "/health"
ADDRESSES = {
    "POST /predict": "classify images: an image file as the body, or several images as JSON",
    "GET /info": "the network, its classes and images, and the limits of this server",
    "GET /health": "whether the server works, and how many images it has classified",
    "GET /openapi.json": "all of this for programs",
}
# Images that are decoded at the same time: each may take a hundred megabytes.
DECODERS = 2
FILE = {"schema": {"type": "string", "format": "binary"}}
BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/PredictRequest"}},
        "image/png": FILE,
        "image/jpeg": FILE,
    },
}
ERRORS: dict[int | str, dict[str, Any]] = {
    413: {"model": ErrorResponse, "description": "The body is too large"},
    422: {"model": ErrorResponse, "description": "The images cannot be read; the message says which and why"},
    500: {"model": ErrorResponse, "description": "The network failed; the server's log has the error"},
    503: {"model": ErrorResponse, "description": "The queue is full; the header Retry-After says how long"},
}


@dataclass(frozen=True)
class Options:
    """Limits of the server.

    Attributes:
        max_body_mb: size of the largest body.
        max_pixels: width times height of the largest image.
        max_batch: images that are computed together, at most.
        max_wait_ms: milliseconds that an image waits for others, at most.
        max_queue: images that wait, and requests that are handled at the same time, at most.
    """

    max_body_mb: float = 8.0
    max_pixels: int = 16_000_000
    max_batch: int = 32
    max_wait_ms: float = 5.0
    max_queue: int = 128


def create_app(
    predictor: Predictor,
    options: Options | None = None,
    *,
    sha256: str = "",
    hosts: Collection[str] | None = None,
    token: str | None = None,
) -> FastAPI:
    """Create the application.

    Args:
        predictor: the network to serve.
        options: limits; by default those of `Options`.
        sha256: of its weights file, for `/info`.
        hosts: accepted host names, in lower case; by default all.
        token: a secret that clients send as `Authorization: Bearer TOKEN`; by default none is needed.

    Example:
        >>> app = create_app(Predictor.load("pooled_cnn-mnist"))
        >>> sorted(app.openapi()["paths"])
        ['/health', '/info', '/predict']
    """
    options = options or Options()
    started = time.monotonic()
    batcher = Batcher(
        predictor,
        max_batch=options.max_batch,
        max_wait=options.max_wait_ms / 1000,
        max_queue=options.max_queue,
    )
    max_images = min(MAX_IMAGES, options.max_queue)
    reader = ImageReader(predictor, max_pixels=options.max_pixels, max_images=max_images)
    information = describe(predictor, options, sha256, max_images)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.decoders = CapacityLimiter(DECODERS)
        batcher.start()
        yield
        batcher.close()

    app = FastAPI(
        title="torchcaps serve",
        version=__version__,
        description=f"Predictions of {predictor.card.model}.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.batcher, app.state.requests = batcher, 0
    app.add_middleware(BodySizeLimit, max_bytes=int(options.max_body_mb * 1e6))
    if token is not None:
        app.add_middleware(BearerToken, token=token, public=(HEALTH,))
    if hosts is not None:
        app.add_middleware(AllowedHosts, hosts=hosts)
    app.add_middleware(SecurityHeaders)
    add_error_handlers(app)
    add_serve_error_handlers(app)

    @app.post(
        "/predict", response_model=PredictResponse, responses=ERRORS, openapi_extra={"requestBody": BODY}
    )
    async def predict(
        request: Request,
        top: Annotated[int | None, Query(ge=1, description="how many classes to return")] = None,
        invert: Annotated[
            bool | None,
            Query(description="swap dark and light; by default where the border of a gray image asks for it"),
        ] = None,
    ) -> Response:
        """Classify images: one image file as the body, or several images as JSON."""
        # Before the body is read, so that the memory for bodies is limited too.
        if app.state.requests >= options.max_queue:
            raise QueueFullError(0)
        app.state.requests += 1
        try:
            predictions = await handle(request, invert)
        except ClientDisconnect:
            predictions = None
        finally:
            app.state.requests -= 1
        if predictions is None:
            return Response(status_code=CLIENT_CLOSED)  # nobody receives it
        body = PredictResponse(predictions=[shortened(each, top) for each in predictions])
        return Response(body.model_dump_json(), media_type="application/json")

    async def handle(request: Request, invert: bool | None) -> list[Prediction] | None:
        """The predictions of one request, or None if its client has left."""
        body = await request.body()
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        read = partial(reader.read, body, media_type, invert)
        images = await to_thread.run_sync(read, limiter=app.state.decoders)
        futures = batcher.submit(images)
        result = asyncio.gather(*map(asyncio.wrap_future, futures))
        try:
            if not await wait_unless_disconnected(result, request):
                return None
            return result.result()
        except asyncio.CancelledError:
            if not batcher.closed:
                raise  # the request itself was canceled
            raise HTTPException(503, "the server is stopping") from None
        except Exception as error:
            logging.getLogger(__name__).error("the network failed", exc_info=error)
            raise HTTPException(500, "the network failed; the log of the server has the error") from None
        finally:
            if not all(future.done() for future in futures):
                batcher.remove(futures)

    @app.get(HEALTH, response_model=HealthResponse, responses={503: {"model": HealthResponse}})
    async def health() -> Response:
        """Return whether the server works, and how many images and batches it has computed."""
        alive = batcher.is_alive()
        body = HealthResponse(
            status="ok" if alive else "stopped",
            seconds=round(time.monotonic() - started, 1),
            **batcher.statistics()._asdict(),
        )
        return Response(body.model_dump_json(), 200 if alive else 503, media_type="application/json")

    # Not in the document: it is for people who open the address in a browser.
    @app.get("/", include_in_schema=False)
    async def root() -> dict[str, Any]:
        """Return what can be asked for."""
        return {"server": f"torchcaps serve {__version__}", "addresses": ADDRESSES}

    @app.get("/info", response_model=InfoResponse)
    async def info() -> InfoResponse:
        """Return the network, its classes and images, and the limits of this server."""
        return information

    add_request_schema(app)
    return app


def add_serve_error_handlers(app: FastAPI) -> None:
    """Register handlers for a full queue and for images that cannot be read."""

    @app.exception_handler(QueueFullError)
    async def full(_: Request, error: QueueFullError) -> JSONResponse:
        seconds = max(1, math.ceil(error.seconds))
        response = error_response(503, f"the queue is full; try again in {seconds} s")
        response.headers["Retry-After"] = str(seconds)
        return response

    @app.exception_handler(UnreadableImageError)
    async def unreadable(_: Request, error: UnreadableImageError) -> JSONResponse:
        return error_response(422, str(error))


def add_request_schema(app: FastAPI) -> None:
    """Put `PredictRequest` into the OpenAPI document: the endpoint reads its body itself."""
    document = app.openapi()  # FastAPI keeps it and returns the same object later
    document["components"]["schemas"]["PredictRequest"] = PredictRequest.model_json_schema()


def shortened(prediction: Prediction, top: int | None) -> ImagePrediction:
    """A prediction with the scores of the best classes only."""
    # More digits than float32 has would only make the answer longer.
    scores = {name: round(score, 6) for name, score in list(prediction.scores.items())[:top]}
    return ImagePrediction(label=prediction.label, score=scores[prediction.label], scores=scores)


def describe(predictor: Predictor, options: Options, sha256: str, max_images: int) -> InfoResponse:
    """The network, its classes and images, and the limits."""
    card = predictor.card
    parameters = list(predictor.model.parameters())
    return InfoResponse(
        version=__version__,
        model=card.model,
        options=card.options,
        num_params=sum(parameter.numel() for parameter in parameters),
        sha256=sha256,
        classes=list(card.classes),
        in_channels=card.in_channels,
        image_size=list(card.image_size),
        preprocess=card.preprocess,
        facts=card.facts,
        device=str(parameters[0].device),
        limits=Limits(
            max_body_mb=options.max_body_mb,
            max_pixels=options.max_pixels,
            max_images=max_images,
            max_batch=options.max_batch,
            max_wait_ms=options.max_wait_ms,
            max_queue=options.max_queue,
        ),
    )


def warm_up(predictor: Predictor) -> None:
    """Classify a black image, so that what is wrong with a network appears before the first request."""
    card = predictor.card
    predictor(torch.zeros(1, card.in_channels, *card.image_size, dtype=torch.uint8))

"""The errors of the lab alone; `torchcaps.web.errors` has those of every server."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from torchcaps.lab.model_store import MissingWeightsError
from torchcaps.lab.run import RunWeightsError
from torchcaps.lab.worker import BusyError, SupersededError
from torchcaps.web.errors import ErrorResponse, error_response

BUSY = "too many requests are waiting; try again in a moment"


class MissingWeightsResponse(ErrorResponse):
    """Which network is missing, so that a page can say it in another language; none for weights of a run."""

    model: str | None = None
    data: str | None = None


def add_lab_error_handlers(app: FastAPI) -> None:
    """Register a handler for every kind of error that only the lab has."""

    @app.exception_handler(SupersededError)
    async def superseded(_: Request, error: SupersededError) -> JSONResponse:
        return error_response(409, "superseded by a newer request")

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> JSONResponse:
        return error_response(429, BUSY)

    @app.exception_handler(MissingWeightsError)
    async def missing_weights(_: Request, error: MissingWeightsError) -> JSONResponse:
        response = MissingWeightsResponse(detail=str(error), model=error.model, data=error.data)
        return JSONResponse(response.model_dump(), 503)

    @app.exception_handler(RunWeightsError)
    async def run_weights(_: Request, error: RunWeightsError) -> JSONResponse:
        return JSONResponse(MissingWeightsResponse(detail=str(error)).model_dump(), 503)

"""Whatever goes wrong is told in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from torchcaps.lab.weights import NoWeightsError
from torchcaps.lab.worker import BusyError, SupersededError

PLAIN = {
    404: "there is nothing at this address",
    405: "this address does not answer that method",
    429: "too many requests are waiting; try again in a moment",
}


def fault(status: int, sentence: str) -> JSONResponse:
    """An error as JSON; what a client sent may hold halves of characters, which cannot be sent back."""
    return JSONResponse({"detail": sentence.encode("utf-8", "replace").decode()}, status)


def sentence(errors: Sequence[Any]) -> str:
    """The first thing wrong with a request, and how many more there are.

    >>> sentence([{"loc": ("body", "image", 3, 0), "msg": "Input should be less than or equal to 1"}])
    'image[3][0]: input should be less than or equal to 1'
    """
    first = errors[0]
    where = ""
    for step in first["loc"][1:]:
        where += f"[{step}]" if isinstance(step, int) else f".{str(step)[:40]}" if where else str(step)[:40]
    message = str(first["msg"])
    if first.get("type") == "json_invalid":
        where, message = "body", "this is not JSON"
    if first.get("type") == "model_attributes_type":
        message = "this must be a JSON object, sent as application/json"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where or 'body'}: {message[:1].lower()}{message[1:]}{more}"


def tell_faults(app: FastAPI) -> None:
    """Give the app an answer to every kind of fault."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return fault(422, sentence(error.errors()))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        told = str(error.detail)
        if told == "There was an error parsing the body":
            told = "the body cannot be read as JSON"
        answer = fault(error.status_code, PLAIN.get(error.status_code, told))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(SupersededError)
    async def superseded(_: Request, error: SupersededError) -> JSONResponse:
        return fault(409, "superseded by a newer request")

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> JSONResponse:
        return fault(429, PLAIN[429])

    @app.exception_handler(NoWeightsError)
    async def missing(_: Request, error: NoWeightsError) -> JSONResponse:
        return fault(503, str(error))

    @app.exception_handler(ValueError)
    async def refused_by_the_library(_: Request, error: ValueError) -> JSONResponse:
        return fault(400, str(error))

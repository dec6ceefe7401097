"""Error responses: every error is reported as JSON, in one sentence."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

MESSAGES = {
    404: "no page has this address",
    405: "this address does not support the request method",
}


class ErrorResponse(BaseModel):
    """Why the request failed, in one sentence."""

    model_config = ConfigDict(extra="forbid")

    detail: str


def error_response(status: int, message: str) -> JSONResponse:
    """An error as JSON; lone surrogates from a client's text, which UTF-8 cannot encode, are replaced."""
    return JSONResponse({"detail": message.encode("utf-8", "replace").decode()}, status)


def validation_message(errors: Sequence[Any]) -> str:
    """The first error in a request, and the number of further ones.

    >>> validation_message([{"loc": ("body", "image", 3, 0), "msg": "Input should be at most 1"}])
    'image[3][0]: input should be at most 1'
    """
    first = errors[0]
    place = ""
    for key in first["loc"][1:]:
        place += f"[{key}]" if isinstance(key, int) else f".{str(key)[:40]}" if place else str(key)[:40]
    message = str(first["msg"])
    if first.get("type") == "json_invalid":
        place, message = "body", "not valid JSON"
    if first.get("type") == "model_attributes_type":
        message = "expected a JSON object, sent as application/json"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place or 'body'}: {message[:1].lower()}{message[1:]}{more}"


def add_error_handlers(app: FastAPI) -> None:
    """Register a handler for every kind of error that all servers have."""

    @app.exception_handler(RequestValidationError)
    async def invalid_request(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(422, validation_message(error.errors()))

    @app.exception_handler(HTTPException)
    async def http_error(_: Request, error: HTTPException) -> JSONResponse:
        message = MESSAGES.get(error.status_code, str(error.detail))
        if message == "There was an error parsing the body":
            message = "the body cannot be read as JSON"
        response = error_response(error.status_code, message)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(ValueError)
    async def invalid_value(_: Request, error: ValueError) -> JSONResponse:
        return error_response(400, str(error))

    # A ValueError as well, but the server's fault: requests raise RequestValidationError.
    @app.exception_handler(ValidationError)
    async def invalid_response(_: Request, error: ValidationError) -> JSONResponse:
        logging.getLogger(__name__).error("the server built an invalid response", exc_info=error)
        return error_response(500, f"the server built an invalid {error.title}; please report this error")

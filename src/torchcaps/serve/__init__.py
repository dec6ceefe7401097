"""A small HTTP server for predictions: `torchcaps serve RUN`, see docs/serving.md."""

from torchcaps._extras import require

require("fastapi", extra="serve", purpose="the server for predictions")
require("pydantic", extra="serve", purpose="the server for predictions")
require("uvicorn", extra="serve", purpose="the server for predictions")

"""The lab: a page in the browser, and the local server behind it that runs the networks."""

from torchcaps._extras import require

require("fastapi", extra="lab", purpose="the lab")
require("pydantic", extra="lab", purpose="the lab")
require("uvicorn", extra="lab", purpose="the lab")

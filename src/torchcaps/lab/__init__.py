"""The lab: one page in the browser, and the small server that answers it from the library."""

from torchcaps._extras import require

require("fastapi", extra="lab", purpose="the lab")
require("pydantic", extra="lab", purpose="the lab")
require("uvicorn", extra="lab", purpose="the lab")

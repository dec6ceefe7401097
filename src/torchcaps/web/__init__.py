"""What the servers have in common: connections, middleware, and errors as JSON.

`torchcaps.lab` is the page in the browser, `torchcaps.serve` the server for predictions.
"""

from torchcaps._extras import require

require("fastapi", extra="serve", purpose="a server")
require("pydantic", extra="serve", purpose="a server")
require("uvicorn", extra="serve", purpose="a server")

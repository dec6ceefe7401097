from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles

from torchcaps import __version__
from torchcaps.lab.api import create_api
from torchcaps.lab.docs import docs_page
from torchcaps.lab.draw import warm_up
from torchcaps.lab.faults import tell_faults
from torchcaps.lab.shield import BodyLimit, KnownHosts, SafeHeaders
from torchcaps.lab.weights import Shelf, load_shelf
from torchcaps.lab.worker import Worker

HERE = Path(__file__).parent

# Where a system lists another type for these, a browser told not to guess would refuse the page's modules.
mimetypes.add_type("text/javascript", ".js")
mimetypes.add_type("text/css", ".css")
mimetypes.add_type("image/svg+xml", ".svg")


def create_app(shelf: Shelf | None = None, hosts: Collection[str] | None = None) -> FastAPI:
    """The lab as an ASGI application.

    Args:
        shelf: the networks to answer with; by default those that come with the package.
        hosts: names that it answers to; by default all.

    Example:
        >>> create_app(Shelf({})).title
        'torchcaps lab'
    """
    shelf = load_shelf() if shelf is None else shelf
    worker = Worker()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        worker.submit(None, lambda: warm_up(shelf))
        yield
        worker.close()

    app = FastAPI(
        title="torchcaps lab",
        version=__version__,
        description="Capsules in the browser: every answer comes from the library's public functions.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.worker = worker
    app.add_middleware(BodyLimit)
    if hosts is not None:
        app.add_middleware(KnownHosts, hosts=hosts)
    app.add_middleware(SafeHeaders)
    tell_faults(app)
    app.include_router(create_api(shelf, worker))
    page = docs_page(app.openapi())

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index() -> FileResponse:
        return FileResponse(HERE / "static" / "index.html")

    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/docs.css", include_in_schema=False)
    async def docs_style() -> FileResponse:
        return FileResponse(HERE / "assets" / "docs.css")

    app.mount("/static", StaticFiles(directory=HERE / "static", check_dir=False), name="static")
    return app

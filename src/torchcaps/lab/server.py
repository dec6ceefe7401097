"""The lab as an ASGI application: the JSON API, its documentation, and the page."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, HTMLResponse
from starlette.staticfiles import StaticFiles

from torchcaps import __version__
from torchcaps.lab.api import create_api
from torchcaps.lab.docs import docs_page
from torchcaps.lab.errors import add_lab_error_handlers
from torchcaps.lab.model_store import ModelStore, load_model_store
from torchcaps.lab.run import LabRun
from torchcaps.lab.views.draw import warm_up
from torchcaps.lab.worker import Worker
from torchcaps.web.errors import add_error_handlers
from torchcaps.web.middleware import AllowedHosts, BodySizeLimit, CookieToken, SecurityHeaders

HERE = Path(__file__).parent
MAX_BODY_BYTES = 1_000_000
TOKEN_COOKIE = "torchcaps_lab"
TOKEN_NEEDED = "this lab needs a token; open the address that torchcaps lab printed, with its ?token=..."
# The tab and the section of the view of a run, which are on the page only with one.
RUN_PARTS = re.compile(r" *<!-- run -->.*?<!-- /run -->\n", re.DOTALL)
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def create_app(
    store: ModelStore | None = None,
    hosts: Collection[str] | None = None,
    token: str | None = None,
    run: LabRun | None = None,
) -> FastAPI:
    """Create the application.

    Args:
        store: the networks to use; by default those that come with the package.
        hosts: accepted host names, in lower case; by default all.
        token: a secret that every client needs; by default none does.
        run: a run to show in a view of its own.

    Example:
        >>> create_app(ModelStore({})).title
        'torchcaps lab'
    """
    # Some systems list other types for these; with nosniff, a browser would then reject the page's modules.
    for suffix, media_type in MEDIA_TYPES.items():
        mimetypes.add_type(media_type, suffix)
    store = load_model_store() if store is None else store
    store.run = None if run is None else run.network
    worker = Worker()
    page = (HERE / "static" / "index.html").read_text(encoding="utf-8")
    if run is None:
        page = RUN_PARTS.sub("", page)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        worker.submit(None, lambda: warm_up(store))
        yield
        worker.close()

    app = FastAPI(
        title="torchcaps lab",
        version=__version__,
        description="Capsule networks in the browser, computed with the public functions of torchcaps.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.worker = worker
    app.add_middleware(BodySizeLimit, max_bytes=MAX_BODY_BYTES)
    if token is not None:
        app.add_middleware(CookieToken, token=token, cookie=TOKEN_COOKIE, message=TOKEN_NEEDED)
    if hosts is not None:
        app.add_middleware(AllowedHosts, hosts=hosts)
    app.add_middleware(SecurityHeaders)
    add_error_handlers(app)
    add_lab_error_handlers(app)
    app.include_router(create_api(store, worker, run))

    @cache  # its schema takes a tenth of the start, and few visitors read it
    def documentation() -> str:
        return docs_page(app.openapi())

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page)

    @app.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(documentation())

    @app.get("/docs.css", include_in_schema=False)
    async def docs_style() -> FileResponse:
        return FileResponse(HERE / "assets" / "docs.css")

    app.mount("/static", StaticFiles(directory=HERE / "static", check_dir=False), name="static")
    return app

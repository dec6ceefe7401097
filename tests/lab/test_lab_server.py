"""The page and the API documentation."""

import mimetypes
import re

import pytest
from starlette.testclient import TestClient

from torchcaps.lab.model_store import ModelStore
from torchcaps.lab.server import create_app


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_pages_support_head_requests(client: TestClient, path: str) -> None:
    assert client.head(path).status_code == 200


def test_modules_are_served_as_javascript_whatever_the_system_says() -> None:
    mimetypes.add_type("text/plain", ".js")
    with TestClient(create_app(ModelStore({}))) as client:
        response = client.get("/static/js/main.js")
    assert response.headers["Content-Type"].startswith("text/javascript")


def test_every_panel_is_labeled_by_its_tab(client: TestClient) -> None:
    page = client.get("/").text
    panels = re.findall(r'<section [^>]*id="view-(\w+)"[^>]*aria-labelledby="tab-(\w+)"', page)
    assert len(panels) == page.count('role="tabpanel"')
    assert all(view == tab for view, tab in panels)


def test_the_documentation_needs_no_other_host_and_no_script(client: TestClient) -> None:
    page = client.get("/docs").text
    assert "POST /api/draw" in page
    assert "://" not in page
    assert "<script" not in page
    assert "style=" not in page


def test_the_documentation_shows_headers_and_all_types(client: TestClient) -> None:
    page = client.get("/docs").text
    assert "X-Session" in page
    for name in client.get("/openapi.json").json()["components"]["schemas"]:
        assert f'id="{name}"' in page

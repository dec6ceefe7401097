"""A server that answers as the Hugging Face hub does, as far as publishing and fetching files need it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(ThreadingHTTPServer):
    """Repositories in memory.

    Attributes:
        repositories: the files of each, by the name of the repository.
        private: names of the repositories that were created as private ones.
        tokens: tokens that clients have sent.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: set[str] = set()
        self.tokens: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeHub

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.tokens.add(self.headers.get("Authorization", ""))
        if self.path == "/api/repos/create":
            return self.create(json.loads(body))
        if self.path == "/api/validate-yaml":
            begins = json.loads(body)["content"].startswith("---\nlibrary_name: ")
            return self.answer(200, {"errors": [] if begins else [{"message": "no header"}], "warnings": []})
        found = re.fullmatch(
            r"/api/models/([^/]+/[^/]+)/(preupload|commit)/main", self.path.partition("?")[0]
        )
        if found is None or found[1] not in self.server.repositories:
            return self.answer(404, {"error": f"no {self.path}"})
        if found[2] == "preupload":
            facts = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            files = [{"path": each["path"], **facts} for each in json.loads(body)["files"]]
            return self.answer(200, {"files": files})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                content = base64.b64decode(line["value"]["content"])
                self.server.repositories[found[1]][line["value"]["path"]] = content
        url = f"{self.server.url}/{found[1]}/commit/{COMMIT}"
        return self.answer(200, {"success": True, "commitUrl": url, "commitOid": COMMIT, "hookOutput": ""})

    def create(self, wanted: dict[str, Any]) -> None:
        name = f"{wanted['organization']}/{wanted['name']}" if wanted.get("organization") else wanted["name"]
        url = f"{self.server.url}/{name}"
        if name in self.server.repositories:
            return self.answer(409, {"error": "You already created this model repo", "url": url})
        self.server.repositories[name] = {}
        if wanted.get("private") or wanted.get("visibility") == "private":
            self.server.private.add(name)
        return self.answer(200, {"url": url, "name": name})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        found = re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", self.path.partition("?")[0])
        content = self.server.repositories.get(found[1], {}).get(found[2]) if found else None
        if content is None:
            return self.answer(404, {"error": "Entry not found"}, {"X-Error-Code": "RepoNotFound"})
        return self.send(200, content, {"X-Repo-Commit": COMMIT, "ETag": f'"{len(content)}"'})

    def answer(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self.send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    """The server, in a thread of its own."""
    with FakeHub() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()

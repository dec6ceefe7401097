"""A web server on the loopback interface with faults that a test can switch on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Web:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.ranges = True
        self.content_length = True
        self.break_after: list[int] = []
        """For the next requests: close the connection after so many bytes of the body."""
        self.before_body = threading.Event()
        self.before_body.set()
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        name, wanted = handler.path.lstrip("/"), handler.headers.get("Range")
        self.requests.append((name, wanted))
        self.before_body.wait(20)
        if name not in self.files:
            handler.send_error(404)
            return
        body, begin = self.files[name], 0
        if wanted and self.ranges:
            begin = int(wanted.removeprefix("bytes=").rstrip("-"))
            if begin >= len(body):
                handler.send_error(416)
                return
        handler.send_response(206 if begin else 200)
        if self.content_length:
            handler.send_header("Content-Length", str(len(body) - begin))
        handler.end_headers()
        end = begin + self.break_after.pop(0) if self.break_after else len(body)
        with suppress(ConnectionError):
            handler.wfile.write(body[begin:end])


@contextmanager
def serving() -> Iterator[Web]:
    web = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    web.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.before_body.set()
        server.shutdown()
        server.server_close()
        thread.join()

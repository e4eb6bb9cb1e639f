"""A server on loopback whose replies are those of a function."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class ScriptedRequest(NamedTuple):
    """A request that a scripted server got."""

    method: str
    path: str
    body: bytes


class ScriptedReply(NamedTuple):
    """What a scripted server replies."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"
    headers: Mapping[str, str] = {}


Script = Callable[[ScriptedRequest], ScriptedReply]


class _ScriptedServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server = self.server
        assert isinstance(server, _ScriptedServer)
        with server.lock:  # requests are answered one after another
            reply = server.script(ScriptedRequest(self.command, self.path, body))
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:  # the client was killed, or ends a request early
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def scripted_server(script: Script) -> Iterator[str]:
    """Serve on loopback for the time of a `with` block; return http://127.0.0.1:PORT."""
    with _ScriptedServer(script) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

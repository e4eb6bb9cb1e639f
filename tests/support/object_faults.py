"""A proxy before an S3 server, on loopback, that makes the faults of a network."""

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from feedferry.transforms.storage.objects.requests import clients

Fault = Callable[["Request"], str]
"""Returns what to do with a request: "pass", "slow" (503), "lose" the answer, or "cut" it.

"reset" resets the connection before the request is handled, "reset-after" after it.
"""

_UPSTREAM_SECONDS = 300
_SLOW = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Request(BaseHTTPRequestHandler):
    """A request to the server; `method` and `path` are its own, `body` is its body."""

    protocol_version = "HTTP/1.1"
    server: "FaultyProxy"

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def _pass(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        action = self.server.fault(self)
        self.server.made += action != "pass"
        if action == "cut":
            self.rfile.read(length // 2)
            self.close_connection = True
            self.connection.close()
            return
        if action == "reset":
            self._reset()
            return
        body = self.rfile.read(length)
        if action == "slow":
            self._answer(503, {"Content-Type": "application/xml"}, _SLOW)
            return
        status, headers, answer = self._forward(body)
        if action == "lose":
            self.close_connection = True
            self.connection.close()
            return
        if action == "reset-after":
            self._reset()
            return
        self._answer(status, headers, answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815  # names of http.server

    def _forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.server.upstream, timeout=_UPSTREAM_SECONDS)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    def _reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response_only(status)
        hidden = {"transfer-encoding", "connection"}
        if self.command != "HEAD":
            hidden.add("content-length")
            self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            if name.lower() not in hidden:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Do not log requests."""


class FaultyProxy(ThreadingHTTPServer):
    """The proxy; `fault` decides about each request, `made` counts the faults."""

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.made = 0
        self.fault: Fault = lambda request: "pass"
        super().__init__(("127.0.0.1", 0), Request)

    def handle_error(self, *_: object) -> None:
        """Ignore connections that were cut."""


@contextmanager
def faulty_proxy(upstream: str) -> Iterator[FaultyProxy]:
    """Let object storage be reached through a proxy."""
    with FaultyProxy(upstream) as proxy, pytest.MonkeyPatch.context() as patch:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,))
        thread.start()
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.server_port}")
        patch.setenv("NO_PROXY", "*")
        clients.cache_clear()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
    clients.cache_clear()


def times(count: int, action: str, matches: Callable[[Request], bool]) -> Fault:
    """Return a fault that is made the first times that a request matches."""
    left = [count]

    def decide(request: Request) -> str:
        if left[0] and matches(request):
            left[0] -= 1
            return action
        return "pass"

    return decide

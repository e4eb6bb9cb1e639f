"""A web site on loopback whose answers a test states, and what was requested of it."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import NamedTuple


class Answer(NamedTuple):
    """A response; `seconds` pass before it."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = {}
    seconds: float = 0.0


class Request(NamedTuple):
    """A request, with the headers that a test may look at."""

    path: str
    host: str
    authorization: str | None
    since: str | None
    etag: str | None


Answers = Callable[[Request], Answer]
NO_ROBOTS = Answer(status=404)


class WebSite:
    """The requests of a site, and the most that were answered at a time, by host."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.peaks = Counter[str]()

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


@contextmanager
def web_site(answers: Answers) -> Iterator[WebSite]:
    """Serve a site while the block runs; without an answer of its own, there is no robots.txt."""
    lock, under_way = Lock(), Counter[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            get = self.headers.get
            request = Request(
                self.path,
                get("Host", ""),
                get("Authorization"),
                get("If-Modified-Since"),
                get("If-None-Match"),
            )
            with lock:
                site.requests.append(request)
                under_way[request.host] += 1
                site.peaks[request.host] = max(under_way[request.host], site.peaks[request.host])
            answer = answers(request)
            time.sleep(answer.seconds)
            with lock:
                under_way[request.host] -= 1
            with suppress(OSError):
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Stay silent about connections that a client has closed."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site = WebSite(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

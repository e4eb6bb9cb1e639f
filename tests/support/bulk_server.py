"""The search server of `bulk_target` on loopback, and the package as pip would install it."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from feedferry.transforms.formats import registered
from feedferry.transforms.sinks.push.wire.address import APPLIANCES
from support import bulk_target
from support.bulk_target import BULK, BULK_SERVER

_ENTRY_POINTS = """\
[feedferry.formats]
bulk = bulk_target:BULK
[feedferry.appliances]
bulk-server = bulk_target:BULK_SERVER
"""

Items = list[tuple[str, dict[str, object] | None]]
"""The URLs of a request, with the documents of those that are no deletions."""


class BulkServer:
    """An index. A test replaces `answer`, which returns the status of each item, or of the request.

    Requests without the `key` are refused, if there is one.
    """

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, object]] = {}
        self.requests: list[list[str]] = []
        self.pages = 0
        self.fields = {"allow": "keyword", "deny": "keyword"}
        self.key = ""
        self.answer: Callable[[list[str]], int | list[int]] = lambda urls: [200] * len(urls)
        self.url = ""

    def take(self, items: Items) -> tuple[int, object]:
        """Return the status and the body of a response."""
        urls = [url for url, _ in items]
        self.requests.append(urls)
        statuses = self.answer(urls)
        if isinstance(statuses, int):
            return statuses, {"error": "the whole request"}
        for (url, document), status in zip(items, statuses, strict=True):
            if status < 400 and document is None:
                self.documents.pop(url, None)
            elif status < 400 and document is not None:
                self.documents[url] = document
        errors = [{"status": each, "error": "no" * (each >= 400)} for each in statuses]
        return 200, {"items": errors}

    def search(self, size: int, after: str) -> tuple[int, object]:
        self.pages += 1
        urls = sorted(url for url in self.documents if url > after)[:size]
        return 200, [self.documents[url] for url in urls]


def _items(body: bytes) -> Items:
    items: Items = []
    for line in map(json.loads, body.splitlines()):
        if "index" in line:
            items.append((line["index"]["_id"], None))
        elif "delete" in line:
            items.append((line["delete"]["_id"], None))
        else:
            items[-1] = (items[-1][0], line)
    return items


@contextmanager
def serving() -> Iterator[BulkServer]:
    """Yield a server whose `url` is the address of its index."""
    server = BulkServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(200, server.fields)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if server.key and self.headers["Authorization"] != f"ApiKey {server.key}":
                self._reply(401, {"error": "no key"})
            elif self.path == "/hr/_bulk":
                self._reply(*server.take(_items(body)))
            else:
                self._reply(*server.search(**json.loads(body)))

        def log_message(self, *_args: object) -> None: ...

        def _reply(self, status: int, value: object) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
        thread.start()
        server.url = f"http://127.0.0.1:{listener.server_port}/hr/_bulk"
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()


@contextmanager
def known() -> Iterator[None]:
    """Add the format and the appliance in this process."""
    with registered(BULK), APPLIANCES.registered(BULK_SERVER):
        yield


def install(site: Path) -> Path:
    """Put the package and its entry points into a folder of packages."""
    folder = Path(bulk_target.__file__).parent
    shutil.copytree(folder, site / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
    about = site / "bulk_target-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bulk-target\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(_ENTRY_POINTS)
    return site

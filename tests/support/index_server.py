"""A stand-in for OpenSearch on loopback: an index that lists and searches its documents.

The replies have the form of OpenSearch 2.19.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from feedferry.transforms.sinks.push.wire.opensearch.mapping import mapping

Source = dict[str, Any]
_ORDER = ("version", "url", "datasource")


class IndexServer:
    """The documents by id; `pages` counts the searches that list them, `searches` all others.

    An index whose tokens are analysed texts does not count denials.

    `replies` are statuses and bodies of other paths, in place of those of an index that is right.
    """

    def __init__(self) -> None:
        self.documents: dict[str, Source] = {}
        self.pages = 0
        self.searches = 0
        self.counts_denials = True
        self.url = ""
        self.replies: dict[str, tuple[int, object]] = {}

    def load(self, folder: Path) -> None:
        """Take the documents of the chunks of a run, with versions in their order."""
        for path in sorted((folder / "chunks").iterdir()):
            lines = map(json.loads, path.read_text("utf-8").splitlines())
            for line in lines:
                if "index" in line:
                    document = next(lines)
                    document["version"] = len(self.documents)
                    self.documents[line["index"]["_id"]] = document

    def reply(self, path: str, body: Mapping[str, Any]) -> tuple[int, object]:
        name = path.partition("?")[0].rpartition("/")[2]
        if name in self.replies:
            return self.replies[name]
        if name == "_search":
            return 200, self._search(body)
        if name == "_mapping":
            return 200, {"docs-1": {"mappings": mapping("docs")}}
        if name == "_count":
            return 200, {"count": len(self.documents), "_shards": {"failed": 0}}
        return 200, {}

    def _search(self, body: Mapping[str, Any]) -> object:
        found = {
            key: document
            for key, document in self.documents.items()
            if matches(key, self._tokens(document), body.get("query", {"match_all": {}}))
        }
        if body["size"] == 0:
            self.searches += 1
            return {"timed_out": False, "_shards": {"failed": 0}, "hits": _total(len(found))}
        self.pages += 1
        hits: list[dict[str, Any]] = [
            {"_id": key, "_source": document, "sort": [document[name] for name in _ORDER]}
            for key, document in found.items()
        ]
        hits.sort(key=lambda hit: list(hit["sort"]))
        after = body.get("search_after", [])
        following = [hit for hit in hits if hit["sort"] > after]
        page = {"hits": following[: body["size"]]}
        return {"timed_out": False, "_shards": {"failed": 0}, "hits": page}

    def _tokens(self, document: Source) -> Source:
        if self.counts_denials:
            return document
        return {name: value for name, value in document.items() if "_deny_" not in name}


def matches(key: str, document: Source, query: Mapping[str, Any]) -> bool:
    """Whether a query finds a document."""
    [(kind, stated)] = query.items()
    if kind == "match_all":
        return True
    if kind == "ids":
        return key in stated["values"]
    if kind == "term":
        [(name, value)] = stated.items()
        return bool(document.get(name) == value)
    if kind == "terms":
        [(name, values)] = stated.items()
        return not {*document.get(name, ())}.isdisjoint(values)
    should = [matches(key, document, each) for each in stated.get("should", ())]
    return (
        all(matches(key, document, each) for each in stated.get("filter", ()))
        and not any(matches(key, document, each) for each in stated.get("must_not", ()))
        and (not should or any(should))
    )


def _total(count: int) -> object:
    return {"total": {"value": count, "relation": "eq"}}


@contextmanager
def serving_index() -> Iterator[IndexServer]:
    """Yield a server whose `url` is the address of its index."""
    server = IndexServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(*server.reply(self.path, {}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            self._reply(*server.reply(self.path, json.loads(body or b"{}")))

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
        server.url = f"http://127.0.0.1:{listener.server_port}/intranet"
        try:
            yield server
        finally:
            listener.shutdown()
            thread.join()

"""A proxy on loopback between a push and a search server, which answers some requests itself."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from feedferry.testing import ScriptedReply, ScriptedRequest, scripted_server
from support.search_servers import SearchServer
from support.solr_servers import SolrServer

_SECONDS = 120
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
Answer = Callable[[ScriptedRequest], ScriptedReply | None]
"""Returns the reply to a request, or None to pass the request on."""


class SearchProxy:
    """A proxy: `answer` can be replaced at any time."""

    def __init__(self, server: SearchServer | SolrServer) -> None:
        self._server = server
        self.answer: Answer = lambda _request: None
        self.url = ""

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        return self.answer(request) or self._pass_on(request)

    def _pass_on(self, request: ScriptedRequest) -> ScriptedReply:
        kind = "application/x-ndjson" if "_bulk" in request.path else "application/json"
        headers = {"Content-Type": kind} if request.body else {}
        if request.body[:2] == b"\x1f\x8b":
            headers["Content-Encoding"] = "gzip"
        passed = urllib.request.Request(
            self._server.url + request.path, request.body or None, headers, method=request.method
        )
        try:
            with _opener.open(passed, timeout=_SECONDS) as reply:
                return ScriptedReply(reply.status, reply.read(), "application/json")
        except urllib.error.HTTPError as exc:
            with exc:
                return ScriptedReply(exc.code, exc.read(), "application/json")


@contextmanager
def search_proxy(server: SearchServer | SolrServer) -> Iterator[SearchProxy]:
    """Run a proxy of a server."""
    proxy = SearchProxy(server)
    with scripted_server(proxy) as url:
        proxy.url = url
        yield proxy

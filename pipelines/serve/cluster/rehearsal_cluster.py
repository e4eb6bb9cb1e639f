"""Answers the requests of a cluster that the appliance `opensearch` sends, and some for a search.

A request that is not played has the status 501 and an error that states what is played.
"""

import re
from pathlib import Path
from typing import IO
from urllib.parse import parse_qs, unquote

import msgspec

from feedferry.pipelines.serve.cluster.bulk_actions import ItemFaults
from feedferry.pipelines.serve.cluster.cluster_error import ClusterError, not_played
from feedferry.pipelines.serve.cluster.cluster_request import (
    ClusterReply,
    ClusterRequest,
    Handler,
    Handlers,
)
from feedferry.pipelines.serve.cluster.cluster_store import ClusterStore
from feedferry.pipelines.serve.cluster.document_requests import DocumentRequests
from feedferry.pipelines.serve.cluster.filter_path import keep
from feedferry.pipelines.serve.cluster.index_requests import IndexRequests

MAX_BODY_BYTES = 100 << 20
"""A real server closes the connection or answers 413 above this size."""

_PATH = re.compile(r"/(?:(?P<name>[^_/][^/]*)(?:/|$))?(?P<verb>_[a-z_]+)?(?:/(?P<below>[^/]+))?")


class RehearsalCluster:
    """The cluster of a receiver; safe from several threads."""

    def __init__(self, folder: Path) -> None:
        self._store = ClusterStore(folder)
        self._handlers: Handlers = {
            **IndexRequests(self._store).handlers,
            **DocumentRequests(self._store).handlers,
        }

    def plays(self, method: str, path: str) -> bool:
        """Whether a path is one of a cluster; that of an index alone is with some methods only."""
        match = _PATH.fullmatch(path)
        return match is not None and (bool(match["verb"]) or (method, "") in self._handlers)

    def answer(
        self, method: str, path: str, query: str, stream: IO[bytes], faults: ItemFaults
    ) -> ClusterReply:
        """Answer a request, whose body is in a file."""
        match = _PATH.fullmatch(path)
        if match is None:
            raise AssertionError(f"{path}: answered without `plays`")
        verb = match["verb"] or ""
        request = ClusterRequest(
            name=unquote(match["name"] or ""),
            below=unquote(match["below"] or ""),
            query=parse_qs(query, keep_blank_values=True),
            stream=stream,
            faults=faults,
        )
        try:
            with self._store.transaction():
                found = self._handler(method, verb, path)(request)
        except ClusterError as exc:
            return ClusterReply(status=exc.status, body=msgspec.json.encode(exc.body))
        if isinstance(found, ClusterReply):
            return found
        return ClusterReply(body=msgspec.json.encode(keep(found, request.paths)))

    def totals(self) -> list[tuple[str, int]]:
        """Return the name of each index and the number of its documents."""
        return self._store.totals()

    def close(self) -> None:
        self._store.close()

    def _handler(self, method: str, verb: str, path: str) -> Handler:
        found = self._handlers.get((method, verb))
        if found is not None:
            return found
        known = sorted({name for name in (verb for _, verb in self._handlers) if name})
        allowed = sorted(method for method, name in self._handlers if name == verb)
        expected = f"{', '.join(allowed)}" if allowed else ", ".join(known)
        raise not_played(f"{method} {path}", expected)

"""A few random nights at real servers: no document is shown to a stranger of the source."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from feedferry.pipelines.serve.cluster.bulk_actions import ItemFaults
from support.cluster_requests import NO_FAULTS
from support.histories.histories import IS_STRICT, explore, simulated
from support.histories.observed_index import Backend
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow

NIGHTS = 12
SEED = 38
_SECONDS = 120
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def real(server: SearchServer) -> Backend:
    """Return a backend that passes requests on; it refuses no action of its own."""

    def answer(
        method: str, path: str, body: bytes, faults: ItemFaults = NO_FAULTS
    ) -> tuple[int, bytes]:
        del faults  # a real server refuses no action on demand
        kind = "application/x-ndjson" if "_bulk" in path else "application/json"
        head = {"Content-Type": kind} if body else {}
        request = urllib.request.Request(server.url + path, body or None, head, method=method)
        try:
            with _open(request, timeout=_SECONDS) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.read()

    return answer


def test_no_night_at_a_server_shows_a_document_to_a_stranger(
    server: SearchServer, tmp_path: Path
) -> None:
    with simulated(tmp_path, is_strict=IS_STRICT, backend=real(server)) as simulation:
        history = explore(simulation, SEED, NIGHTS)
    assert history.violation is None
    assert history.figures.kills
    assert history.figures.shown

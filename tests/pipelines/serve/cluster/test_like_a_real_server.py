"""The same requests to a rehearsal and to a real OpenSearch, which a variable names."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from support.cluster_requests import (
    asking,
    delete,
    document,
    encoded,
    hide,
    index,
    make_index,
)

ADDRESS = os.environ.get("FEEDFERRY_TEST_OPENSEARCH", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not ADDRESS, reason="FEEDFERRY_TEST_OPENSEARCH has no address"),
]
VARYING = ("took", "index_uuid", "_seq_no")
ORDER = [{"version": {"order": "asc", "missing": "_first"}}, {"url": "asc"}]
BULK = "/docs-web/_bulk?require_alias=true"
MOVE = [
    {"remove": {"index": "docs-web-1", "alias": "docs-web"}},
    {"add": {"index": "docs-web-2", "alias": "docs-web"}},
]
MUST_EXIST = {"remove": {"index": "docs-web-2", "alias": "docs-web-3", "must_exist": True}}
TRIAL = {
    "scripted_upsert": True,
    "upsert": {},
    "script": {"lang": "painless", "source": "ctx.op = 'none'"},
}
REQUESTS: list[tuple[Any, ...]] = [
    ("GET", "/docs-web/_mapping"),
    ("GET", "/docs-none/_mapping"),
    ("HEAD", "/docs-web"),
    ("HEAD", "/docs-none"),
    ("GET", "/docs-web/_alias"),
    ("GET", "/docs-none-2*/_alias"),
    ("GET", "/_alias/docs-none"),
    ("PUT", "/docs-web", {}),
    ("PUT", "/Docs-Web", {}),
    ("POST", BULK, [*index(1), *index(2), *index(3, 2, title="Annual Report")]),
    ("POST", BULK, [*index(1, 5), *index(1, 4), *delete(1, 4), *delete(9)]),
    (
        "POST",
        BULK,
        [*index(4, owner="bob"), *index(5, size="many"), *index(6, datasource="a" * 40000)],
    ),
    ("POST", BULK, [*hide(1, 6), *hide(1, 6), *hide(8)]),
    ("POST", BULK, [{"create": {"_id": "http://h/2"}}, document(2)]),
    ("POST", BULK, [{"update": {"_id": "http://h/2"}}, {"doc": {"title": "new"}}] * 2),
    ("POST", BULK, [{"update": {"_id": "http://h/2"}}, {"doc": {"owner": "bob"}}]),
    ("POST", BULK, [{"move": {"_id": "a"}}, {}]),
    ("POST", BULK, [{"index": {"_id": "a" * 600}}, {}]),
    ("POST", BULK, [{"index": {"_id": "a", "color": 1}}, {}]),
    ("POST", BULK, [{"index": {"_id": ""}}, {}]),
    ("POST", BULK, [{"index": {"_id": "a"}}]),
    ("POST", BULK, b'{"index":{"_id":"a"}}\n{}'),
    ("POST", "/docs-none/_bulk?require_alias=true", index(1)),
    ("POST", f"{BULK}&filter_path=errors,items.*.status", [*index(7), *index(1)]),
    ("POST", f"{BULK}&filter_path=errors,items.*.error", index(7)),
    ("POST", "/docs-web/_update/trial?require_alias=true", TRIAL),
    ("POST", "/docs-none/_update/trial?require_alias=true", TRIAL),
    ("POST", "/docs-web/_refresh"),
    ("GET", "/docs/_count"),
    ("GET", "/docs-none/_count"),
    ("POST", "/docs/_search", {"size": 2, "sort": ORDER}),
    ("POST", "/docs/_search", {"sort": ORDER, "track_total_hits": False, "_source": ["url"]}),
    ("POST", "/docs/_search?filter_path=hits.hits._id", {"sort": ORDER}),
    ("POST", "/docs/_search", {"query": {"match": {"title": "report"}}, "sort": ["url"]}),
    ("PUT", "/docs-web-2/_settings", {"index": {"number_of_replicas": None}}),
    ("POST", "/_aliases", {"actions": [*MOVE, {"remove": {"index": "docs-none", "alias": "a"}}]}),
    ("POST", "/_aliases", {"actions": [{"add": {"index": "docs-web-2", "alias": "docs-web-1"}}]}),
    ("POST", "/_aliases", {"actions": [*MOVE, MUST_EXIST]}),
    ("POST", "/_aliases", {"actions": []}),
    ("GET", "/docs-web/_alias"),
    ("POST", "/_aliases", {"actions": MOVE}),
    ("GET", "/docs-web/_alias"),
    ("DELETE", "/docs-web"),
    ("DELETE", "/docs-none"),
    ("DELETE", "/docs-web-1"),
]


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RehearsalCluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with closing(RehearsalCluster(folder)) as cluster:
        yield cluster


def ask_real(method: str, target: str, body: object = None) -> tuple[int, Any]:
    headers = {"Content-Type": "application/x-ndjson" if "_bulk" in target else "application/json"}
    data = encoded(body) or None
    request = Request(ADDRESS + target, data=data, method=method, headers=headers)
    try:
        with urlopen(request) as response:
            status, text = response.status, response.read()
    except HTTPError as exc:
        status, text = exc.code, exc.read()
    return status, json.loads(text) if text else None


def alike(value: Any) -> Any:
    """Return a reply without what differs from server to server."""
    if isinstance(value, dict):
        return {name: alike(part) for name, part in value.items() if name not in VARYING}
    return [alike(part) for part in value] if isinstance(value, list | tuple) else value


def test_replies_are_those_of_a_real_server(rehearsal: RehearsalCluster) -> None:
    both = asking(rehearsal), ask_real
    for name in ("docs-web-1", "docs-web-2"):
        ask_real("DELETE", f"/{name}")
    for ask in both:
        make_index(ask)
        make_index(ask, "docs-web-2", "docs-web-2-loading")
    for request in REQUESTS:
        ours, real = (ask(*request) for ask in both)
        assert (request[:2], *alike(ours)) == (request[:2], *alike(real))
    ask_real("DELETE", "/docs-web-2")

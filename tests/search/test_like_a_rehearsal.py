"""The same requests to a rehearsal and to a real server have the same replies."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.transforms.access.index_fields import field_names
from support.cluster_requests import (
    VERSION,
    Ask,
    asking,
    delete,
    document,
    encoded,
    hide,
    index,
    make_index,
)
from support.search_servers import OPENSEARCH_2, OPENSEARCH_3, SearchServer

pytestmark = pytest.mark.slow
VARYING = ("took", "index_uuid", "_seq_no")
ORDER = [{"version": {"order": "asc", "missing": "_first"}}, {"url": "asc"}, {"datasource": "asc"}]
BULK = "/docs-web/_bulk?require_alias=true"
MOVE = [
    {"remove": {"index": "docs-web-1", "alias": "docs-web"}},
    {"add": {"index": "docs-web-2", "alias": "docs-web"}},
]
NO_ALIAS = {"index": "docs-web-1", "alias": "docs-none"}
NO_CHANGE = {"lang": "painless", "source": "ctx.op = 'none'"}
TRIAL = {"scripted_upsert": True, "upsert": {}, "script": NO_CHANGE}
ACCESS = field_names()
DENIED: dict[str, Any] = {"acl_1_permit_1": ["b", "a", "b"], "acl_1_deny_2": "c"}
IDS = {"ids": {"values": ["http://h/3", "http://h/10", "http://h/9"]}}
REQUESTS: list[tuple[Any, ...]] = [
    ("GET", "/docs-web/_mapping"),
    ("GET", "/docs-none/_mapping"),
    ("PUT", "/docs-web/_mapping", {"properties": {"author": {"type": "text"}}}),
    ("PUT", "/docs-web/_mapping", {"properties": {"author": {"type": "text"}}}),
    ("PUT", "/docs-web/_mapping", {"properties": {"author": {"type": "long"}}}),
    ("PUT", "/docs-none/_mapping", {"properties": {"author": {"type": "text"}}}),
    ("GET", "/docs-web/_mapping"),
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
    ("POST", "/docs-web/_update/a-trial?require_alias=true", TRIAL),
    ("POST", BULK, index(10, **DENIED)),
    ("POST", "/docs-web/_refresh"),
    ("GET", "/docs/_count"),
    ("GET", "/docs-none/_count"),
    ("POST", "/docs/_search", {"size": 2, "sort": ORDER}),
    ("POST", "/docs/_search", {"sort": ORDER, "track_total_hits": False, "_source": ["url"]}),
    ("POST", "/docs/_search?filter_path=hits.hits._id", {"sort": ORDER}),
    ("POST", "/docs/_search", {"query": {"match": {"title": "report"}}, "sort": ["url"]}),
    ("POST", "/docs/_search", {"query": {"ids": {"values": ["http://h/1"]}}, "sort": ["url"]}),
    (
        "POST",
        "/docs-web/_search?filter_path=hits.hits._id,hits.hits.fields,_shards.failed,timed_out",
        {"query": IDS, "_source": False, "docvalue_fields": ACCESS, "track_total_hits": False},
    ),
    ("POST", "/docs-none/_search", {"query": IDS}),
    ("POST", "/docs-none/_refresh"),
    ("POST", "/docs/_count", {"query": {"range": {"version": {"gte": VERSION + 6}}}}),
    ("POST", "/docs/_count", {"query": {"range": {"version": {"gte": VERSION + 7}}}}),
    ("PUT", "/docs-web-2/_settings", {"index": {"number_of_replicas": None}}),
    ("POST", "/_aliases", {"actions": [*MOVE, {"remove": {"index": "docs-none", "alias": "a"}}]}),
    ("POST", "/_aliases", {"actions": [{"add": {"index": "docs-web-2", "alias": "docs-web-1"}}]}),
    ("POST", "/_aliases", {"actions": [{"remove": NO_ALIAS}]}),
    ("POST", "/_aliases", {"actions": [*MOVE, {"remove": {**NO_ALIAS, "must_exist": True}}]}),
    ("POST", "/_aliases", {"actions": []}),
    ("GET", "/docs-web/_alias"),
    ("POST", "/_aliases", {"actions": MOVE}),
    ("GET", "/docs-web/_alias"),
    ("DELETE", "/docs-web"),
    ("DELETE", "/docs-none"),
    ("DELETE", "/docs-web-1"),
]


def asking_server(server: SearchServer) -> Ask:
    def ask(method: str, target: str, body: object = None) -> tuple[int, Any]:
        kind = "application/x-ndjson" if "_bulk" in target else "application/json"
        data = encoded(body) or None
        request = Request(server.url + target, data, {"Content-Type": kind}, method=method)
        try:
            with urlopen(request) as response:
                status, text = response.status, response.read()
        except HTTPError as exc:
            status, text = exc.code, exc.read()
        return status, json.loads(text) if text else None

    return ask


def alike(value: Any) -> Any:
    """Return a reply without what differs from server to server."""
    if isinstance(value, dict):
        return {name: alike(part) for name, part in value.items() if name not in VARYING}
    return [alike(part) for part in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("_server", [OPENSEARCH_2, OPENSEARCH_3], indirect=True)
def test_replies_are_those_of_a_real_server(server: SearchServer, tmp_path: Path) -> None:
    with closing(RehearsalCluster(tmp_path)) as cluster:
        both = asking(cluster), asking_server(server)
        for ask in both:
            make_index(ask)
            make_index(ask, "docs-web-2", "docs-web-2-loading")
        for request in REQUESTS:
            ours, real = (ask(*request) for ask in both)
            assert (request[:2], *alike(ours)) == (request[:2], *alike(real))

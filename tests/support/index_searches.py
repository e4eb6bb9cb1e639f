"""Searches of an index as a user, with the filter that an application adds."""

import json
from urllib.request import ProxyHandler, Request, build_opener

from feedferry import access
from support.served import BOUND_SECONDS

_OPENER = build_opener(ProxyHandler({}))


def found_by(url: str, user: str, *groups: str, base: str) -> list[str]:
    """Return the documents that a user finds at the URL of an index, without `base`, in order."""
    tokens = access.tokens_of(access.members_of([user], groups=groups))
    query = {"query": {"bool": {"filter": access.search_filter(tokens)}}, "size": 100}
    head = {"Content-Type": "application/json"}
    request = Request(f"{url}/_search", json.dumps(query).encode(), head)
    with _OPENER.open(request, timeout=BOUND_SECONDS) as reply:
        hits = json.load(reply)["hits"]["hits"]
    return sorted(hit["_id"].removeprefix(base) for hit in hits)

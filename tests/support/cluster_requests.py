"""Requests to a cluster, and its replies, for tests of the rehearsal and of a real server."""

import io
import json
from collections.abc import Callable
from typing import Any

from feedferry.pipelines.serve.cluster.bulk_actions import ItemFaults
from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.transforms.access.index_fields import hidden_fields, public_fields
from feedferry.transforms.formats.opensearch.bulk_writer import ACL_SCRIPT
from feedferry.transforms.sinks.push.wire.opensearch.mapping import mapping

VERSION = 10**18
NO_FAULTS = ItemFaults()
Ask = Callable[..., tuple[int, Any]]
"""Sends method, target and body (lines for a bulk); returns the status and the decoded reply."""


def encoded(body: object) -> bytes:
    """Return a body: bytes as they are, a list as lines, None as none, else JSON."""
    if body is None or isinstance(body, bytes):
        return body or b""
    if isinstance(body, list):
        return b"".join(json.dumps(line).encode() + b"\n" for line in body)
    return json.dumps(body).encode()


def asking(cluster: RehearsalCluster, faults: ItemFaults = NO_FAULTS) -> Ask:
    def ask(method: str, target: str, body: object = None) -> tuple[int, Any]:
        path, _, query = target.partition("?")
        stream = io.BytesIO(encoded(body))
        reply = cluster.answer(method, path, query, stream, faults)
        data = reply.body
        if not isinstance(data, bytes):
            data.seek(0)
            with data:
                data = data.read()
        return reply.status, json.loads(data) if data and method != "HEAD" else None

    return ask


def make_index(ask: Ask, name: str = "docs-web-1", *aliases: str) -> tuple[int, Any]:
    held: dict[str, object] = {alias: {} for alias in aliases or ("docs-web", "docs")}
    return ask("PUT", f"/{name}", {"mappings": mapping("web"), "aliases": held})


def document(number: int, version: int = 1, **fields: object) -> dict[str, Any]:
    return {
        "version": VERSION + version,
        "url": f"http://h/{number}",
        "datasource": "web",
        **public_fields(),
        **fields,
    }


def index(number: int, version: int = 1, **fields: object) -> list[object]:
    """Return the lines of an action with an external version."""
    key = {"_id": f"http://h/{number}", "version": VERSION + version}
    action = {"index": {**key, "version_type": "external_gte"}}
    return [action, document(number, version, **fields)]


def delete(number: int, version: int = 1) -> list[object]:
    key = {"_id": f"http://h/{number}", "version": VERSION + version}
    return [{"delete": {**key, "version_type": "external_gte"}}]


def hide(number: int, version: int = 1) -> list[object]:
    params = {"version": VERSION + version, "fields": hidden_fields()}
    script = {"params": params, "lang": "painless", "source": ACL_SCRIPT}
    return [{"update": {"_id": f"http://h/{number}"}}, {"script": script}]


def bulk(ask: Ask, *actions: list[object], alias: str = "docs-web") -> list[Any]:
    """Return status, result or error type of each action."""
    lines = [line for action in actions for line in action]
    _, reply = ask("POST", f"/{alias}/_bulk?require_alias=true", lines)
    items = (next(iter(item.values())) for item in reply["items"])
    return [(item["status"], item.get("result") or item["error"]["type"]) for item in items]

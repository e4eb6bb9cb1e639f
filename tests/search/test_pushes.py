"""Pushes to a real server: refused documents, older runs, and a disk that is full."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.observer.observer import Observer
from feedferry.pipelines.options.push_options import parse_push
from feedferry.pipelines.push.engine import push
from feedferry.pipelines.push.record import PushResult
from feedferry.schemas.reject import Reject
from feedferry.testing import ScriptedReply, ScriptedRequest
from feedferry.transforms.access.index_fields import search_filter, tokens_of
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.wire.opensearch.mapping import mapping
from feedferry.transforms.storage.atomic import read_rejects
from support.runs import convert
from support.search_proxies import SearchProxy, search_proxy
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow

HOST = "http://docs.example.com/"
A, B = f"{HOST}a", f"{HOST}b"
BOB = '<principal scope="user" access="permit">bob</principal>'
FEEDTYPE = "incremental"
BUSY = ScriptedReply(503, b"busy", headers={"Retry-After": "0"})


def record(url: str, shown: str, acl: str = "") -> str:
    """Return a record of a document with a display URL."""
    return (
        f'<record url="{url}" displayurl="{shown}" mimetype="text/plain">{acl}'
        "<content>text</content></record>"
    )


def converted(folder: Path, name: str, *records: str) -> Path:
    """Return the folder of a run that is not pushed."""
    feed = folder / f"{name}.xml"
    feed.write_text(
        "<gsafeed><header><datasource>docs</datasource>"
        f"<feedtype>{FEEDTYPE}</feedtype></header><group>{''.join(records)}</group></gsafeed>"
    )
    assert convert(str(feed), "-o", str(folder / name), "--to", "opensearch") == 0
    return folder / name


def pushed(run: Path, url: str, *, attempts: int = 3) -> PushResult:
    options, settings = parse_push({"inputs": (str(run),), "url": f"{url}/intranet"})
    policy = RetryPolicy(first_seconds=0.0, max_attempts=attempts)
    (result,) = push(options, replace(settings, retry=policy), Observer())
    return result


def rejects(run: Path) -> list[Reject]:
    return [reject for path in run.glob("rejects/push-*.avro") for reject in read_rejects(path)]


def seen(server: SearchServer) -> list[str]:
    """The documents that a person without a name finds."""
    return server.ids("intranet", search_filter(tokens_of([])))


@pytest.fixture
def proxy(server: SearchServer) -> Iterator[SearchProxy]:
    with search_proxy(server) as started:
        yield started


def refuse_documents(request: ScriptedRequest) -> ScriptedReply | None:
    return BUSY if "_bulk" in request.path else None


def test_a_refused_version_is_a_reject_and_the_version_before_it_is_hidden(
    server: SearchServer, tmp_path: Path
) -> None:
    wanted = json.loads(json.dumps(mapping("docs", flat_kind=server.program.flat_kind)))
    wanted["properties"] |= {"display_url": {"type": "integer"}}
    body = {"mappings": wanted, "aliases": {"intranet": {}, "intranet-docs": {}}}
    server.call("PUT", "/intranet-docs-1", body)
    assert (
        pushed(converted(tmp_path, "1", record(A, "1"), record(B, "1")), server.url).exit_code == 0
    )
    assert seen(server) == [A, B]
    run = converted(tmp_path, "2", record(A, "2"), record(B, "words"))
    assert pushed(run, server.url).exit_code == 1
    (reject,) = rejects(run)
    assert reject.url == B
    assert b"words" in reject.data
    assert A.encode() not in reject.data
    assert "failed to parse field [display_url] of type [integer]" in reject.reason
    assert seen(server) == [A]
    assert pushed(converted(tmp_path, "3", record(B, "3")), server.url).exit_code == 0
    assert seen(server) == [A, B]


def test_an_older_run_changes_no_document_that_a_newer_one_has_sent(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path
) -> None:
    older = converted(tmp_path, "older", record(A, "older"), record(B, "older"))
    proxy.answer = refuse_documents
    assert pushed(older, proxy.url, attempts=1).exit_code == 4
    proxy.answer = lambda _request: None
    newer = converted(tmp_path, "newer", record(A, "newer", f"<acl>{BOB}</acl>"))
    assert pushed(newer, proxy.url).exit_code == 0
    result = pushed(older, proxy.url)
    assert result.exit_code == 0
    assert (result.account.newer, result.account.notices) == (1, {})
    assert seen(server) == [B]


def test_an_older_run_does_not_undo_a_newer_acl(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path
) -> None:
    assert pushed(converted(tmp_path, "first", record(A, "1")), proxy.url).exit_code == 0
    older = converted(tmp_path, "older", record(A, "older"))
    proxy.answer = refuse_documents
    assert pushed(older, proxy.url, attempts=1).exit_code == 4
    proxy.answer = lambda _request: None
    newer = converted(tmp_path, "newer", f'<acl url="{A}">{BOB}</acl>')
    assert pushed(newer, proxy.url).exit_code == 0
    assert seen(server) == []
    result = pushed(older, proxy.url)
    assert result.exit_code == 4
    assert "a newer run has changed the ACLs of 1 documents" in str(result)
    assert seen(server) == []


def test_a_full_disk_is_waited_for(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path
) -> None:
    assert pushed(converted(tmp_path, "first", record(A, "1")), proxy.url).exit_code == 0
    server.call("PUT", "/intranet/_settings", {"index.blocks.read_only_allow_delete": True})
    requests = 0

    def free_disk(request: ScriptedRequest) -> None:
        nonlocal requests
        requests += "_bulk" in request.path
        if requests == 3:
            unblocked = {"index.blocks.read_only_allow_delete": None}
            server.call("PUT", "/intranet/_settings", unblocked)

    proxy.answer = free_disk
    result = pushed(converted(tmp_path, "second", record(B, "2")), proxy.url)
    assert result.exit_code == 0
    assert requests == 3
    assert seen(server) == [A, B]


def test_an_acl_counts_for_a_document_that_comes_after_it_without_one(
    server: SearchServer, tmp_path: Path
) -> None:
    acl = f'<acl url="{A}">{BOB}</acl>'
    run = converted(tmp_path, "1", acl, record(A, "1"), record(B, "1"))
    assert pushed(run, server.url).exit_code == 0
    assert seen(server) == [B]

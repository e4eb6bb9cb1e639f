"""Pushes to a real server: refused documents, older runs, and a disk that is full."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.access import members_of
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


METADATA = '<metadata><meta name="a" content="b"/></metadata>'
BOB_ONLY = f"<acl>{BOB}</acl>"
NEWER_RUNS = {
    "document": record(A, "newer", BOB_ONLY),
    "ACL": f'<acl url="{A}">{BOB}</acl>',
    "deletion": f'<record url="{A}" action="delete" mimetype="text/plain"/>',
}


def converted(folder: Path, name: str, *records: str, feedtype: str = FEEDTYPE) -> Path:
    """Return the folder of a run that is not pushed."""
    feed = folder / f"{name}.xml"
    feed.write_text(
        "<gsafeed><header><datasource>docs</datasource>"
        f"<feedtype>{feedtype}</feedtype></header><group>{''.join(records)}</group></gsafeed>"
    )
    assert convert(str(feed), "-o", str(folder / name), "--to", "opensearch") in (0, 1)
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


class HeldRequests:
    """Holds the requests whose path has a word, as a slow network does; the sender gives up."""

    def __init__(self, proxy: SearchProxy, word: str) -> None:
        self.requests: list[ScriptedRequest] = []
        self._proxy, self._word = proxy, word
        proxy.answer = self._hold

    def arrive(self) -> list[ScriptedReply]:
        """Pass the requests on; later ones are not held."""
        self._proxy.answer = lambda _request: None
        return [self._proxy(request) for request in self.requests]

    def _hold(self, request: ScriptedRequest) -> ScriptedReply | None:
        if self._word not in request.path:
            return None
        self.requests.append(request)
        return BUSY


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


def test_a_withheld_document_is_hidden_until_its_next_version(
    server: SearchServer, tmp_path: Path
) -> None:
    partial = record(A, "2").replace("<content>text</content>", METADATA)
    broken = record(B, "2", f'<acl inherit-from="{HOST}none/"/>')
    opened = f'<acl url="{A}">{BOB}</acl>', f'<acl url="{B}">{BOB}</acl>'
    nights = [
        ((record(A, "1"), record(B, "1")), [A, B]),
        ((partial, broken), []),
        (opened, [B]),
        ((partial, record(A, "3", BOB_ONLY)), [A, B]),
        ((record(A, "4", BOB_ONLY), partial, *opened), [B]),
    ]
    bob = search_filter(tokens_of(members_of(["bob"])))
    for number, (records, expected) in enumerate(nights):
        pushed(converted(tmp_path, str(number), *records), server.url)
        assert (number, server.ids("intranet", bob)) == (number, expected)


@pytest.mark.parametrize("newer", NEWER_RUNS.values(), ids=NEWER_RUNS)
def test_an_older_run_does_not_go_on_when_a_newer_one_has_begun(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path, newer: str
) -> None:
    assert pushed(converted(tmp_path, "first", record(A, "1")), proxy.url).exit_code == 0
    server.call("PUT", "/intranet/_settings", {"index.gc_deletes": "1ms"})
    older = converted(tmp_path, "older", record(A, "older"))
    proxy.answer = refuse_documents
    assert pushed(older, proxy.url, attempts=1).exit_code == 4
    proxy.answer = lambda _request: None
    assert pushed(converted(tmp_path, "newer", newer), proxy.url).exit_code == 0
    assert seen(server) == []
    result = pushed(older, proxy.url)
    assert result.exit_code == 4
    assert "a newer run has begun to write" in str(result)
    assert seen(server) == []


def test_a_run_that_goes_on_when_no_newer_one_has_begun_is_complete(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path
) -> None:
    run = converted(tmp_path, "1", record(A, "1"), record(B, "1"))
    proxy.answer = refuse_documents
    assert pushed(run, proxy.url, attempts=1).exit_code == 4
    proxy.answer = lambda _request: None
    assert pushed(run, proxy.url).exit_code == 0
    assert seen(server) == [A, B]


def test_a_full_disk_is_waited_for(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path
) -> None:
    assert pushed(converted(tmp_path, "first", record(A, "1")), proxy.url).exit_code == 0

    def fill_disk(is_full: bool) -> None:
        block = {"index.blocks.read_only_allow_delete": is_full or None}
        server.call("PUT", "/intranet/_settings", block)

    requests = {"_aliases": 0, "_bulk": 0}

    def free_disk(request: ScriptedRequest) -> None:
        name = next((name for name in requests if name in request.path), None)
        if name is None:
            return
        requests[name] += 1
        if requests[name] in (1, 5):  # full at first, free at the fifth attempt
            fill_disk(requests[name] == 1)

    proxy.answer = free_disk
    result = pushed(converted(tmp_path, "second", record(B, "2")), proxy.url)
    assert result.exit_code == 0
    assert requests == {"_aliases": 5, "_bulk": 5}
    assert seen(server) == [A, B]


def test_a_deletion_by_pattern_needs_the_urls_of_the_index(
    server: SearchServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urls = [f"{HOST}old/1", f"{HOST}old/2", f"{HOST}new"]
    run = converted(tmp_path, "1", *(record(url, "1") for url in urls))
    assert pushed(run, server.url).exit_code == 0
    items = tmp_path / "items.xml"
    item = f"<Item><Type>DP</Type><Url>{HOST}old/*</Url></Item>"
    items.write_text(f"<ThunderstoneReplication>{item}</ThunderstoneReplication>")
    words = (str(items), "--to", "opensearch", "--datasource", "docs")
    to = ("--push-to", f"{server.url}/intranet")
    capsys.readouterr()
    assert convert(*words, "-o", str(tmp_path / "2"), *to) == 1
    assert (
        f"a deletion by the pattern '{HOST}old/*', whose documents stay in the index; expected one"
        " of a URL: --known-urls lists the URLs"
    ) in capsys.readouterr().out
    assert seen(server) == sorted(urls)
    (tmp_path / "urls.txt").write_text("\n".join(urls))
    known = ("--known-urls", str(tmp_path / "urls.txt"))
    assert convert(*words, "-o", str(tmp_path / "3"), *known, *to) == 0
    server.call("POST", "/intranet/_refresh")
    assert seen(server) == [f"{HOST}new"]


def test_an_acl_counts_for_a_document_that_comes_after_it_without_one(
    server: SearchServer, tmp_path: Path
) -> None:
    acl = f'<acl url="{A}">{BOB}</acl>'
    run = converted(tmp_path, "1", acl, record(A, "1"), record(B, "1"))
    assert pushed(run, server.url).exit_code == 0
    assert seen(server) == [B]


@pytest.mark.parametrize("newer", NEWER_RUNS.values(), ids=NEWER_RUNS)
def test_a_request_that_arrives_after_those_of_a_newer_run_opens_no_document(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path, newer: str
) -> None:
    first = converted(tmp_path, "first", record(A, "1"), record(B, "1"))
    assert pushed(first, proxy.url).exit_code == 0
    server.call("PUT", "/intranet/_settings", {"index.gc_deletes": "1ms"})
    held = HeldRequests(proxy, "_bulk")
    older = converted(tmp_path, "older", record(A, "older"))
    assert pushed(older, proxy.url, attempts=1).exit_code == 4
    proxy.answer = lambda _request: None
    assert pushed(converted(tmp_path, "newer", newer, record(B, "2")), proxy.url).exit_code == 0
    assert seen(server) == [B]
    held.arrive()
    server.call("POST", "/intranet/_refresh")
    assert seen(server) == [B]


@pytest.mark.parametrize("held_record", [f'<acl url="{A}"/>', record(A, "1", BOB_ONLY)])
def test_a_late_acl_or_document_does_not_close_what_a_newer_run_has_opened(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path, held_record: str
) -> None:
    first = converted(tmp_path, "first", record(A, "1", BOB_ONLY))
    assert pushed(first, proxy.url).exit_code == 0
    held = HeldRequests(proxy, "_bulk")
    assert pushed(converted(tmp_path, "older", held_record), proxy.url, attempts=1).exit_code == 4
    proxy.answer = lambda _request: None
    assert pushed(converted(tmp_path, "newer", record(A, "2")), proxy.url).exit_code == 0
    held.arrive()
    server.call("POST", "/intranet/_refresh")
    assert seen(server) == [A]


def test_a_refused_document_stays_hidden_when_an_older_version_of_it_arrives_late(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path
) -> None:
    wanted = json.loads(json.dumps(mapping("docs", flat_kind=server.program.flat_kind)))
    wanted["properties"] |= {"display_url": {"type": "integer"}}
    body = {"mappings": wanted, "aliases": {"intranet": {}, "intranet-docs": {}}}
    server.call("PUT", "/intranet-docs-1", body)
    assert pushed(converted(tmp_path, "first", record(A, "1")), proxy.url).exit_code == 0
    held = HeldRequests(proxy, "_bulk")
    older = converted(tmp_path, "older", record(A, "2"))
    assert pushed(older, proxy.url, attempts=1).exit_code == 4
    proxy.answer = lambda _request: None
    assert pushed(converted(tmp_path, "newer", record(A, "words")), proxy.url).exit_code == 1
    assert seen(server) == []
    held.arrive()
    server.call("POST", "/intranet/_refresh")
    assert seen(server) == []


def test_an_exchange_that_arrives_after_a_newer_run_has_begun_is_refused(
    server: SearchServer, proxy: SearchProxy, tmp_path: Path
) -> None:
    first = converted(tmp_path, "first", record(A, "1"), record(B, "1"), feedtype="full")
    assert pushed(first, proxy.url).exit_code == 0
    older = converted(tmp_path, "older", record(A, "2"), record(B, "2"), feedtype="full")
    requests: list[ScriptedRequest] = []

    def hold_exchange(request: ScriptedRequest) -> ScriptedReply | None:
        if b'"intranet"' not in request.body or request.path != "/_aliases":
            return None
        requests.append(request)
        return ScriptedReply(400, b'{"error": "the connection was lost"}')

    proxy.answer = hold_exchange
    assert pushed(older, proxy.url, attempts=1).exit_code == 4
    proxy.answer = lambda _request: None
    newer = converted(tmp_path, "newer", f'<acl url="{A}">{BOB}</acl>')
    assert pushed(newer, proxy.url).exit_code == 0
    assert seen(server) == [B]
    (exchange,) = requests
    assert proxy(exchange).status == 404
    result = pushed(older, proxy.url)
    assert result.exit_code == 4
    assert "which a newer run may have removed: begin a new run" in str(result)
    assert seen(server) == [B]

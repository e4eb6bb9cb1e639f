"""Requests to OpenSearch: versions of records, results of actions, indexes before and after."""

import io
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.errors import ConfigError, TargetError
from feedferry.schemas.receipt import Refusal
from feedferry.schemas.record import Action, Meta, Record
from feedferry.schemas.share_limit import ShareLimit
from feedferry.transforms.access.index_fields import field_names
from feedferry.transforms.access.meet import HIDDEN_KEY
from feedferry.transforms.formats.opensearch.bulk_writer import (
    BulkEncoder,
    acl_lines,
    hiding_lines,
)
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart, ResponseMeaning
from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch import indexes
from feedferry.transforms.sinks.push.wire.opensearch.bulk_request import make_request, numbered
from feedferry.transforms.sinks.push.wire.opensearch.decision_lines import decisions_of
from feedferry.transforms.sinks.push.wire.opensearch.indexes import RunIndexes, begin, finish
from feedferry.transforms.sinks.push.wire.opensearch.mapping import alias_suffix, mapping
from feedferry.transforms.sinks.push.wire.opensearch.opensearch import OPENSEARCH_CLUSTER
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sinks.push.wire.responses import judge_response
from feedferry.transforms.sinks.push.wire.search_index.stored_decisions import read_decision

ROOT = "http://127.0.0.1:9200/intranet"
BEGUN = 1_764_314_100_123_456
STAMP = "-20251128-071500123456"
KEYWORDS = {name: {"type": "keyword"} for name in field_names()}
URLS = [f"http://h.x/{number}" for number in range(4)]


def encoded(url: str, action: Action = Action.ADD) -> bytes:
    return BulkEncoder().encode(Record(url=url, action=action, body='"version":1, x\\n'))


def chunk(ordinal: int, urls: Sequence[str], feedtype: str = "incremental") -> Chunk:
    return Chunk(
        ordinal=ordinal,
        path=f"chunks/{ordinal}.ndjson",
        bytes=1,
        sha256="",
        records={"ADD": len(urls)},
        first_url=urls[0],
        last_url=urls[-1],
        source="feed.xml",
        span=0,
        format="opensearch",
        datasource="web",
        feedtype=feedtype,
        requested_feedtype=feedtype,
    )


def part_of(stated: Chunk, first: int = 0, count: int = 0) -> ChunkPart:
    return ChunkPart(
        chunk=stated,
        path=Path(stated.path),
        offset=0,
        length=10,
        first=first,
        count=count,
        sha256="",
    )


@given(st.lists(st.sampled_from("idh"), min_size=1, max_size=8), st.integers(1, 400))
def test_each_record_has_its_version_whatever_the_blocks_are(kinds: list[str], size: int) -> None:
    lines = {
        "i": encoded("http://h.x/a"),
        "d": encoded("http://h.x/b", Action.DELETE),
        "h": hiding_lines("http://h.x/c"),
    }
    text = b"".join(map(lines.__getitem__, kinds))
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    sent = b"".join(numbered(blocks, 10**18 + 7))
    assert len(sent) == len(text)
    expected = b"".join(
        lines[kind].replace(b"%d" % 10**18, b"%d" % (10**18 + 7 + number))
        for number, kind in enumerate(kinds)
    )
    assert sent == expected


@given(st.lists(st.tuples(st.sampled_from("idh"), st.booleans()), min_size=1), st.integers(1, 400))
def test_superseded_records_permit_nobody_and_have_as_many_bytes(
    kinds: list[tuple[str, bool]], size: int
) -> None:
    staff = Principal(name='a"],\\', scope=Scope.GROUP, access=Access.PERMIT)
    meta = Meta("acl_1_permit_1", 'x"]'), Meta("b", "2")
    add = Action.ADD
    made = Record(url="http://h.x/a", action=add, body='"acl_1_permit_1":["*"]', metadata=meta)
    access = Acl(principals=(staff, replace(staff, access=Access.DENY, name="b")))
    lines = {
        "i": BulkEncoder().encode(replace(made, acl=access)),
        "d": encoded("http://h.x/b", Action.DELETE),
        "h": acl_lines("http://h.x/c", {"acl_1_permit_1": ["gs:x:a", "b"], "acl_2_permit_1": []}),
    }
    text = b"".join(lines[kind] for kind, _ in kinds)
    blocks = [text[at : at + size] for at in range(0, len(text), size)]
    first = 10**18
    hidden = frozenset(first + at for at, (_, is_hidden) in enumerate(kinds) if is_hidden)
    sent = b"".join(numbered(blocks, first, hidden))
    assert len(sent) == len(text)
    decisions = [decision for _, decision in decisions_of(sent.splitlines())]
    for (kind, is_hidden), decision in zip(kinds, decisions, strict=True):
        if kind != "d":
            assert (read_decision(decision[1:]) == HIDDEN_KEY) is is_hidden
    assert sent.count(b'\\"acl_1_permit_1\\":[\\"*\\"]') == [kind for kind, _ in kinds].count("i")


def test_a_request_hides_the_superseded_records_of_its_part() -> None:
    begun = RunIndexes(
        begun=BEGUN, suffixes={"web": "-web"}, before={5: 1000}, superseded=[0, 1002, 1003, 1004]
    )
    _, body = make_request(part_of(chunk(5, URLS), first=2, count=2), begun)
    sent = b"".join(body.recode([encoded(url) for url in URLS[:3]]))
    decisions = [read_decision(decision[1:]) for _, decision in decisions_of(sent.splitlines())]
    assert [decision == HIDDEN_KEY for decision in decisions] == [True, True, False]


def test_a_request_names_an_alias_and_the_versions_follow_the_record_in_the_run() -> None:
    begun = RunIndexes(begun=BEGUN, suffixes={"web": "-web"}, before={5: 1000})
    path, body = make_request(part_of(chunk(5, URLS), first=2, count=2), begun)
    assert path.startswith("-web/_bulk?require_alias=true&filter_path=")
    first = BEGUN * 1000 + 1002
    assert b"".join(body.recode([encoded(URLS[2])])).count(b'"version":%d' % first) == 2


def test_an_empty_full_feed_is_sent_as_a_refresh() -> None:
    begun = RunIndexes(begun=BEGUN, suffixes={"web": "-web"}, before={5: 0})
    empty = replace(part_of(chunk(5, URLS, "full")), length=0)
    path, body = make_request(empty, begun)
    assert (path, body.length, b"".join(body.blocks())) == ("-web/_refresh", 0, b"")


@pytest.mark.parametrize(
    ("items", "meaning", "refused", "notices"),
    [
        ([("index", 201, None), ("delete", 200, None)], ResponseMeaning.ACCEPTED, (), ()),
        (
            [("index", 201, None), ("index", 400, ("strict_dynamic_mapping_exception", "no x"))],
            ResponseMeaning.ACCEPTED,
            (Refusal(1, "strict_dynamic_mapping_exception: no x"),),
            (),
        ),
        (
            [("index", 201, None), ("index", 429, ("rejected_execution_exception", "queue"))],
            ResponseMeaning.RETRY,
            (),
            (),
        ),
        (
            [("update", 409, ("version_conflict_engine_exception", "[1]")), ("index", 201, None)],
            ResponseMeaning.RETRY,
            (),
            (),
        ),
        (
            [
                ("index", 429, ("cluster_block_exception", "disk usage exceeded flood-stage")),
                ("index", 201, None),
            ],
            ResponseMeaning.FULL_DISK,
            (),
            (),
        ),
        (
            [("index", 404, ("index_not_found_exception", "no alias")), ("index", 201, None)],
            ResponseMeaning.FATAL,
            (),
            (),
        ),
        (
            [("update", 404, ("document_missing_exception", "[1]")), ("delete", 404, None)],
            ResponseMeaning.ACCEPTED,
            (),
            (
                "an ACL without a document in the index",
                "a deletion of a document that the index does not have",
            ),
        ),
        ([("index", 201, None)], ResponseMeaning.REFUSED, (), ()),
    ],
)
def test_the_results_of_actions_decide(
    items: list[tuple[str, int, tuple[str, str] | None]],
    meaning: ResponseMeaning,
    refused: tuple[Refusal, ...],
    notices: tuple[str, ...],
) -> None:
    results = [
        {
            action: {"status": status}
            | ({"error": dict(zip(("type", "reason"), error, strict=True))} if error else {})
        }
        for action, status, error in items
    ]
    body = json.dumps({"errors": True, "items": results}).encode()
    verdict = judge(ApplianceResponse(status=200, body=body), part_of(chunk(1, URLS[:2])))
    assert (verdict.meaning, verdict.refused, verdict.notices) == (meaning, refused, notices)


def test_a_conflict_of_versions_is_counted_as_newer_there() -> None:
    error = {"type": "version_conflict_engine_exception", "reason": "[1]"}
    items = [{"index": {"status": 409, "error": error}}, {"index": {"status": 201}}]
    body = json.dumps({"errors": True, "items": items}).encode()
    verdict = judge(ApplianceResponse(status=200, body=body), part_of(chunk(1, URLS[:2])))
    assert verdict.meaning is ResponseMeaning.ACCEPTED
    assert (verdict.newer, verdict.refused, verdict.notices) == (1, (), ())


@pytest.mark.parametrize(
    ("status", "error", "meaning"),
    [
        (400, {"type": "illegal_argument_exception", "reason": "id is too long"}, "refused"),
        (413, "", "refused"),
        (429, {"type": "circuit_breaking_exception", "reason": "data too large"}, "retry"),
        (429, {"type": "cluster_block_exception", "reason": "flood-stage watermark"}, "full-disk"),
        (503, "", "retry"),
        (401, {"type": "security_exception", "reason": "no"}, "fatal"),
        (404, {"type": "index_not_found_exception", "reason": "no alias"}, "fatal"),
    ],
)
def test_a_request_that_fails_as_a_whole_is_judged_by_status_and_error(
    status: int, error: object, meaning: str
) -> None:
    body = json.dumps({"error": error, "status": status}).encode() if error else b""
    response = ApplianceResponse(status=status, body=body)
    assert judge(response, part_of(chunk(1, URLS))).meaning.value == meaning


def judge(response: ApplianceResponse, part: ChunkPart | None = None) -> Any:
    return judge_response(OPENSEARCH_CLUSTER, response, part)


@pytest.fixture(autouse=True)
def _begun_at_a_known_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "now", lambda: BEGUN)


class ClusterSession:
    """A run at a cluster that is a function of method, path and body."""

    refused = accepted_refusals = 0
    root = folder = Path()
    earlier: object = None
    max_widened: ShareLimit | None = None

    def __init__(
        self,
        chunks: Sequence[Chunk],
        reply: Callable[[str, str], tuple[int, object]] = lambda _method, _path: (200, {}),
    ) -> None:
        self.chunks = chunks
        self.steps: dict[str, str] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self._reply = reply

    @property
    def appliance(self) -> Appliance:
        return parse_target(ROOT)

    def open(self, stated: Chunk) -> nullcontext[IO[bytes]]:
        urls = [stated.first_url, stated.last_url]
        return nullcontext(io.BytesIO(b"".join(map(encoded, urls))))

    def show(self, progress: str) -> None:
        pass

    def step(self, name: str, action: Callable[[], str]) -> str:
        self.steps[name] = self.steps.get(name) or action()
        return self.steps[name]

    def send(
        self,
        path: str,
        body: RequestBody | None,
        *,
        method: str = "POST",
        is_below_address: bool = True,
    ) -> str:
        self.request(path, body, method=method)
        return "OK"

    def request(
        self,
        path: str,
        body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        stated = None if body is None else json.loads(b"".join(body.blocks()))
        self.requests.append((method, path, stated))
        status, reply = self._reply(method, path)
        return ApplianceResponse(status=status, body=json.dumps(reply).encode(), url=ROOT + path)


WRITING = f"-web{STAMP}-writing"
OLD_STAMP, NEW_STAMP = "-20251127-071500000000", "-20251129-071500000000"


def test_the_first_run_makes_a_strict_index_behind_two_aliases_and_writes_by_its_own() -> None:
    new = f"intranet-web{STAMP}"

    def reply(method: str, path: str) -> tuple[int, object]:
        if path == "-web/_mapping":
            return 404, {"error": "no such index"}
        return 200, {new: {"aliases": {"intranet-web": {}, "intranet": {}}}}

    session = ClusterSession([chunk(1, URLS), chunk(2, URLS[:1])], reply)
    suffixes = {"web": WRITING}
    assert begin(session) == RunIndexes(
        begun=BEGUN, suffixes=suffixes, before={1: 0, 2: 4}, kept=suffixes
    )
    [_, (method, path, made), _, (_, _, change), _] = session.requests
    assert (method, path) == ("PUT", f"-web{STAMP}")
    assert made["aliases"] == {"intranet-web": {}, "intranet": {}}
    assert made["mappings"]["dynamic"] == "strict"
    tokens = {made["mappings"]["properties"][name]["type"] for name in field_names()}
    assert tokens == {"keyword"}
    assert change == {"actions": [{"add": {"index": new, "alias": "intranet" + WRITING}}]}


@pytest.mark.parametrize(
    ("begun", "feedtype", "is_reused"),
    [(BEGUN - 1, "incremental", True), (BEGUN, "incremental", False), (BEGUN - 1, "full", False)],
    ids=["earlier", "same-time", "full"],
)
def test_a_run_writes_by_the_alias_of_the_run_before_it(
    begun: int, feedtype: str, is_reused: bool
) -> None:
    session = ClusterSession([chunk(1, URLS, feedtype)])
    kept = {"web": "-web-kept", "wiki": "-wiki-kept"}
    session.earlier = RunIndexes(begun=begun, suffixes={}, before={}, kept=kept)
    indexes = begin(session)
    if is_reused:
        assert (session.requests, indexes.suffixes) == ([], {"web": "-web-kept"})
        assert indexes.kept == kept
    else:
        assert indexes.suffixes == {"web": WRITING}
        assert "-web-kept" not in indexes.kept.values()


def held_by(*stamps: str) -> dict[str, object]:
    """An index by which runs have written, and that of another datasource."""
    writing: dict[str, object] = {f"intranet-web{stamp}-writing": {} for stamp in stamps}
    other: dict[str, object] = {"intranet-web2": {}, f"intranet-web2{NEW_STAMP}-writing": {}}
    return {
        "mine": {"aliases": {"intranet": {}, "intranet-web": {}} | writing},
        f"intranet-web2{OLD_STAMP}": {"aliases": other},
    }


def cluster_with(*stamps: str) -> Callable[[str, str], tuple[int, object]]:
    return lambda _method, path: (200, {} if path.endswith("_mapping") else held_by(*stamps))


def test_a_run_that_begins_removes_the_aliases_by_which_earlier_runs_write() -> None:
    session = ClusterSession([chunk(1, URLS)], cluster_with(OLD_STAMP))
    assert begin(session).suffixes == {"web": WRITING}
    [*_, (method, path, change), _] = session.requests
    assert (method, path) == ("POST", "/_aliases")
    assert change["actions"] == [
        {"remove": {"index": "mine", "alias": f"intranet-web{OLD_STAMP}-writing"}},
        {"add": {"index": "mine", "alias": "intranet" + WRITING}},
    ]


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (400, "script_lang not supported", "expected a server that runs scripts in Painless"),
        (403, "no permissions for", "the user of --auth needs the privileges `read`, `write` and"),
    ],
)
def test_nothing_is_sent_to_a_server_that_cannot_change_acls(
    status: int, error: str, expected: str
) -> None:
    def reply(method: str, path: str) -> tuple[int, object]:
        is_trial = path == f"{WRITING}/_update/feedferry-trial?require_alias=true"
        failed = {"error": {"type": "illegal_argument_exception", "reason": error}}
        return (status, failed) if is_trial else cluster_with()(method, path)

    with pytest.raises(TargetError, match=f"{error}; .*{expected}"):
        begin(ClusterSession([chunk(1, URLS)], reply))


@pytest.mark.parametrize("feedtype", ["incremental", "full"])
def test_a_run_that_goes_on_after_a_newer_one_has_begun_is_refused(feedtype: str) -> None:
    session = ClusterSession([chunk(1, URLS, feedtype)], cluster_with(NEW_STAMP))
    with pytest.raises(TargetError, match="a newer run has begun to write, by the alias 'intranet"):
        begin(session)
    assert not [path for _, path, _ in session.requests if path == "/_aliases"]


def test_elasticsearch_has_another_type_for_metadata() -> None:
    def reply(method: str, path: str) -> tuple[int, object]:
        if method != "PUT":
            return (404 if path.endswith("_mapping") else 200), {}
        kinds = [
            body["mappings"]["properties"]["meta"]["type"] for *_, body in session.requests[1:]
        ]
        error = {"type": "mapper_parsing_exception", "reason": "No handler for type [flat_object]"}
        return (400, {"error": error}) if kinds[-1] == "flat_object" else (200, {})

    session = ClusterSession([chunk(1, URLS)], reply)
    begin(session)
    [*_, made] = [body for method, _, body in session.requests if method == "PUT"]
    assert made["mappings"]["properties"]["fields"] == {"type": "flattened"}


@pytest.mark.parametrize(
    ("held", "found"),
    [
        (mapping("web") | {"properties": {}}, "has no field 'acl_1_deny_1' of type keyword"),
        (mapping("web") | {"dynamic": "true"}, "has a mapping that is not strict"),
        (
            mapping("web") | {"properties": KEYWORDS | {"acl_2_deny_1": {"type": "text"}}},
            "has no field 'acl_2_deny_1' of type",
        ),
    ],
)
def test_an_index_that_would_show_documents_to_others_is_refused(
    held: dict[str, object], found: str
) -> None:
    session = ClusterSession([chunk(1, URLS)], lambda *_: (200, {"other": {"mappings": held}}))
    with pytest.raises(TargetError, match=found):
        begin(session)


@pytest.mark.parametrize("feedtype", ["incremental", "full"])
@pytest.mark.parametrize(
    ("held", "found"),
    [
        (mapping("Web"), "has the datasource 'Web'; expected 'web'"),
        ({"properties": {}}, "has no datasource; expected an index that feedferry has made"),
    ],
)
def test_an_index_that_is_not_of_the_datasource_is_neither_written_nor_replaced(
    held: dict[str, object], found: str, feedtype: str
) -> None:
    session = ClusterSession(
        [chunk(1, URLS, feedtype)], lambda *_: (200, {"other": {"mappings": held}})
    )
    with pytest.raises(TargetError, match=found):
        begin(session)
    assert {method for method, *_ in session.requests} == {"GET"}


@pytest.mark.parametrize("feedtype", ["incremental", "full"])
def test_datasources_of_one_run_whose_names_differ_in_case_only_are_refused(feedtype: str) -> None:
    stated = chunk(1, URLS, feedtype)
    session = ClusterSession([stated, replace(stated, ordinal=2, datasource="WEB")])
    with pytest.raises(TargetError, match="-web: the datasources 'web' and 'WEB'; expected one"):
        begin(session)
    assert not session.requests


def test_an_alias_of_two_indexes_is_refused_before_anything_is_written() -> None:
    held = {name: {"mappings": mapping("web")} for name in ("old", "new")}
    session = ClusterSession([chunk(1, URLS)], lambda *_: (200, held))
    with pytest.raises(TargetError, match="-web: the alias of the indexes old, new; expected one"):
        begin(session)
    assert {method for method, *_ in session.requests} == {"GET"}


def test_a_full_feed_is_searched_when_it_is_complete() -> None:
    old, new = f"intranet-web{OLD_STAMP}", f"intranet-web{STAMP}"
    held = {
        old: {"aliases": {"intranet": {}, "intranet-web": {}}},
        "intranet-web-20251126-071500000000": {"aliases": {}},
        new: {"aliases": {"intranet" + WRITING: {}}},
    }

    def reply(method: str, path: str) -> tuple[int, object]:
        if path.endswith("/_mapping"):
            return 200, {old: {"mappings": mapping("web")}}
        return 200, {"count": 2} if path.endswith("/_count") else held

    session = ClusterSession([chunk(1, URLS, "full")], reply)
    assert begin(session).suffixes == {"web": WRITING}
    [_, (_, path, made), _, _] = session.requests
    assert (path, made["aliases"]) == (f"-web{STAMP}", {"intranet" + WRITING: {}})
    finish(session)
    [exchange] = [body for _, path, body in session.requests if path == "/_aliases"]
    assert exchange["actions"] == [
        {"remove": {"index": new, "alias": "intranet" + WRITING, "must_exist": True}},
        {"remove": {"index": old, "alias": "intranet-web"}},
        {"remove": {"index": old, "alias": "intranet"}},
        {"add": {"index": new, "alias": "intranet-web"}},
        {"add": {"index": new, "alias": "intranet"}},
        {"add": {"index": new, "alias": "intranet" + WRITING}},
    ]
    removed = [path for method, path, _ in session.requests if method == "DELETE"]
    assert removed == ["-web-20251126-071500000000"]


def test_the_index_that_was_searched_is_kept_and_those_of_runs_that_did_not_finish_are_not() -> (
    None
):
    """The older one was searched again by hand."""
    older, old, unfinished = (f"intranet-web-2025112{day}-071500000000" for day in (5, 6, 7))
    held = {
        older: {"aliases": {}},
        old: {"aliases": {"intranet": {}, "intranet-web": {}}},
        unfinished: {"aliases": {}},
        f"intranet-web{STAMP}": {"aliases": {"intranet" + WRITING: {}}},
        f"intranet-web{NEW_STAMP}": {"aliases": {}},
    }

    def reply(method: str, path: str) -> tuple[int, object]:
        if path.endswith("/_mapping"):
            return 200, {old: {"mappings": mapping("web")}}
        if method == "DELETE":
            del held["intranet" + path]
        return 200, {"count": 2} if path.endswith("/_count") else held

    session = ClusterSession([chunk(1, URLS, "full")], reply)
    begin(session)
    finish(session)
    removed = [path for method, path, _ in session.requests if method == "DELETE"]
    assert removed == [unfinished.removeprefix("intranet"), older.removeprefix("intranet")]
    assert [*held] == [old, f"intranet-web{STAMP}", f"intranet-web{NEW_STAMP}"]


@pytest.mark.parametrize("refused", [0, 1])
def test_a_full_feed_that_is_not_complete_is_never_searched(refused: int) -> None:
    def reply(method: str, path: str) -> tuple[int, object]:
        return 200, {"count": 1} if path.endswith("/_count") else {}

    session = ClusterSession([chunk(1, URLS, "full")], reply)
    begin(session)
    session.refused = refused
    expected = "refused: 1 record, so" if refused else "1 documents in the new index"
    with pytest.raises(TargetError, match=expected):
        finish(session)
    assert not [path for _, path, _ in session.requests if path == "/_aliases"]


def test_full_feeds_of_one_run_are_refused_if_the_last_one_replaces_the_others() -> None:
    parts = [replace(chunk(of, URLS, "full"), origin="a.xml") for of in (1, 2)]
    later = replace(chunk(3, URLS, "full"), origin="b.xml")
    with pytest.raises(TargetError, match=r"2 full feeds in one run.*'a.xml', 'b.xml'; expected"):
        begin(ClusterSession([*parts, later]))
    with pytest.raises(TargetError, match="no datasource"):  # the next check
        begin(ClusterSession(parts, lambda *_: (200, {"other": {"mappings": {}}})))


def test_full_and_incremental_feeds_of_one_run_are_refused() -> None:
    chunks = [chunk(1, URLS), chunk(2, URLS, "full")]
    with pytest.raises(TargetError, match="feedferry compact makes one full feed of them"):
        begin(ClusterSession(chunks))


@pytest.mark.parametrize(
    ("datasource", "suffix"), [("web", "-web"), ("Web_2", "-web_2"), ("a.b", "-a.b")]
)
def test_the_alias_of_a_datasource_is_in_lower_case(datasource: str, suffix: str) -> None:
    assert alias_suffix(datasource) == suffix


@pytest.mark.parametrize("datasource", [None, "", "a b", "_x", "x" * 201, "a*"])
def test_a_datasource_that_is_no_name_of_an_index_is_refused(datasource: str | None) -> None:
    with pytest.raises(ConfigError, match="no part of the name of an index"):
        alias_suffix(datasource)


def test_the_address_of_a_cluster_ends_with_the_name_of_the_indexes() -> None:
    assert parse_target("https://search.example.com:9200/intranet/").url == (
        "https://search.example.com:9200/intranet"
    )
    with pytest.raises(ConfigError):
        parse_target("https://search.example.com:9200/a/b")

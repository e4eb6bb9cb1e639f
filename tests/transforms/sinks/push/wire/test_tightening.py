"""A run is compared with its index, which is narrowed before the first chunk is sent."""

import io
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from msgspec.structs import replace

from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import StoppedError, TargetError
from feedferry.schemas.receipt import NARROW
from feedferry.schemas.share_limit import ShareLimit
from feedferry.transforms.access.index_fields import (
    AccessFields,
    hidden_fields,
    public_fields,
    withheld_fields,
)
from feedferry.transforms.formats.opensearch.bulk_writer import acl_script
from feedferry.transforms.rules.acl_changes import ACL_CHANGES, COMPARE, read_changes
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.wire.address import parse_target
from feedferry.transforms.sinks.push.wire.body import RequestBody
from feedferry.transforms.sinks.push.wire.opensearch.cluster_decisions import ClusterDecisions
from feedferry.transforms.sinks.push.wire.opensearch.indexes import RunIndexes
from feedferry.transforms.sinks.push.wire.protocol import Appliance, RunSession
from feedferry.transforms.sinks.push.wire.search_index.tightening import (
    NARROWING,
    forget,
)
from feedferry.transforms.sinks.push.wire.search_index.tightening import tighten as tighten_index
from feedferry.transforms.storage.run_folders.mirrors import mirroring
from feedferry.transforms.storage.storage import LocalStorage
from support.cluster_requests import NO_FAULTS, VERSION, Ask, asking, bulk, encoded, make_index

INDEXES = RunIndexes(begun=2 * 10**15, suffixes={"web": "-web"}, before={1: 0})
LATER = 2 * 10**18 - 1
"""The version of what is sent before the records of the run."""


def tighten(session: RunSession, indexes: RunIndexes) -> Sequence[int]:
    return tighten_index(session, ClusterDecisions(session, indexes), indexes.before)


def only(*names: str, denied: str = "") -> AccessFields:
    fields = public_fields() | {"acl_1_permit_1": [f"gs:Default:{name}" for name in names]}
    return fields | ({"acl_1_deny_1": [f"gs:Default:{denied}"]} if denied else {})


def index(number: int, fields: AccessFields) -> list[object]:
    key = {"_id": f"http://h/{number}", "version": VERSION, "version_type": "external_gte"}
    url = f"http://h/{number}"
    return [{"index": key}, {"version": VERSION, "url": url, "datasource": "web", **fields}]


def update(number: int, fields: AccessFields) -> list[object]:
    return [{"update": {"_id": f"http://h/{number}"}}, {"script": acl_script(fields)}]


def delete(number: int) -> list[object]:
    key = {"_id": f"http://h/{number}", "version": VERSION, "version_type": "external_gte"}
    return [{"delete": key}]


class Session:
    """A run at a cluster in this process; its only chunk has these actions."""

    refused = accepted_refusals = 0
    earlier: object = None

    def __init__(
        self, cluster: RehearsalCluster, folder: Path, *actions: list[object], is_full: bool = False
    ) -> None:
        feedtype = "full" if is_full else "incremental"
        chunk = Chunk(
            ordinal=1,
            path="1.ndjson",
            bytes=1,
            sha256="",
            records={"ADD": len(actions)},
            first_url="",
            last_url="",
            source="feed.xml",
            span=0,
            format="opensearch",
            datasource="web",
            feedtype=feedtype,
            requested_feedtype=feedtype,
        )
        self.chunks: Sequence[Chunk] = [chunk]
        self.root = self.folder = folder
        self.max_widened: ShareLimit | None = None
        self.steps: dict[str, str] = {}
        self.paths: list[str] = []
        self.shown: list[str] = []
        self.fails_at = "none"
        self._cluster = cluster
        self._body = encoded([line for action in actions for line in action])

    @property
    def appliance(self) -> Appliance:
        return parse_target("http://127.0.0.1:9200/docs")

    def open(self, chunk: Chunk) -> nullcontext[IO[bytes]]:
        return nullcontext(io.BytesIO(self._body))

    def show(self, progress: str) -> None:
        self.shown.append(progress)

    def step(self, name: str, action: Any) -> str:
        if name not in self.steps:
            self.steps[name] = action()
        return self.steps[name]

    def send(
        self,
        path: str,
        body: RequestBody | None,
        *,
        method: str = "POST",
        is_below_address: bool = True,
    ) -> str:
        response = self.request(path, body, method=method)
        assert response.is_success
        assert b'"error"' not in response.body
        return ""

    def request(
        self,
        path: str,
        body: RequestBody | None = None,
        *,
        method: str = "GET",
        is_below_address: bool = True,
    ) -> ApplianceResponse:
        self.paths.append(path.partition("?")[0])
        assert self.fails_at not in path
        name, _, query = f"/docs{path}".partition("?")
        data = b"" if body is None else b"".join(body.blocks())
        reply = self._cluster.answer(method, name, query, io.BytesIO(data), NO_FAULTS)
        found = reply.body
        if not isinstance(found, bytes):
            found.seek(0)
            with found:
                found = found.read()
        return ApplianceResponse(status=reply.status, body=found, url=path)

    def listed(self) -> list[tuple[str, ...]]:
        return [
            (change.url[-1], change.change, ",".join(change.gained), ",".join(change.lost))
            for change in read_changes(self.folder / ACL_CHANGES)
        ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RehearsalCluster]:
    with closing(RehearsalCluster(tmp_path)) as started:
        yield started


@pytest.fixture
def ask(cluster: RehearsalCluster) -> Ask:
    found = asking(cluster)
    make_index(found)
    return found


def documents(ask: Ask) -> dict[str, Any]:
    """The fields of the decision of each document, and the version."""
    _, reply = ask("POST", "/docs-web/_search", {"sort": ["url"], "size": 100})
    sources = [hit["_source"] for hit in reply["hits"]["hits"]]
    return {
        source["url"][-1]: (
            source["version"],
            {name: value for name, value in source.items() if name.startswith("acl_")},
        )
        for source in sources
    }


def test_what_both_decisions_permit_is_sent_before_the_chunks(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path
) -> None:
    held = [(1, only("a")), (2, only("a", "b")), (3, public_fields()), (4, only("a"))]
    bulk(ask, *(index(number, fields) for number, fields in held))
    sent = [(1, only("a", "b")), (2, only("a")), (3, only("b", denied="a")), (4, only("b"))]
    session = Session(cluster, tmp_path, *(index(number, fields) for number, fields in sent))
    tighten(session, INDEXES)
    assert documents(ask) == {
        "1": (VERSION, only("a")),
        "2": (LATER, only("a")),
        "3": (LATER, only("b", denied="a")),
        "4": (LATER, only("a") | {"acl_2_permit_1": ["gs:Default:b"]}),
    }
    assert sorted(session.listed()) == [
        ("1", "wider", "gs:Default:b", ""),
        ("2", "narrower", "", "gs:Default:b"),
        ("3", "narrower", "", "*"),
        ("4", "both", "gs:Default:b", "gs:Default:a"),
    ]
    assert session.steps == {
        COMPARE: "wider 1, both 1, narrower 2, narrowed 3",
        NARROW: "3 documents",
    }
    assert session.shown == [
        *("compare 4 records", "compare 4 of 4 records", "narrow 3 of 3 documents")
    ]
    assert session.paths == [
        *("-web/_refresh", "-web/_count", "-web/_search"),
        *("-web/_bulk", "-web/_refresh"),
    ]
    forget(session)
    files = (path.name for path in tmp_path.iterdir())
    assert [name for name in files if not name.startswith("cluster.db")] == [ACL_CHANGES]


def test_a_deletion_hides_a_document_first_and_the_last_version_of_a_run_counts(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path
) -> None:
    bulk(ask, *(index(number, only("a", "b")) for number in range(5)))
    session = Session(
        *(cluster, tmp_path, delete(0), index(1, public_fields()), index(1, only("a"))),
        *(update(2, hidden_fields()), update(3, only("b")), index(7, only("a"))),
        *(update(8, only("a")), delete(9), delete(4), index(4, only("a", "b", "c"))),
    )
    assert [*tighten(session, INDEXES)] == [1, 8]
    assert documents(ask) == {
        "0": (LATER, {}),
        "1": (LATER, only("a")),
        "2": (LATER, {}),
        "3": (LATER, only("b")),
        "4": (VERSION, only("a", "b")),
    }
    assert session.steps[COMPARE] == (
        "wider 1, narrower 2, hidden 1, gone 1, new 1, narrowed 4, superseded 2"
    )
    assert [*tighten(session, INDEXES)] == [1, 8]
    forget(session)
    with pytest.raises(TargetError, match="0 records; expected 2: begin a new run"):
        tighten(session, INDEXES)


def test_an_update_that_withholds_a_document_is_sent_as_it_is(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path
) -> None:
    bulk(ask, index(1, only("a")))
    sent = update(1, only("b")), update(1, withheld_fields()), update(1, only("c"))
    session = Session(cluster, tmp_path, *sent)
    assert [*tighten(session, INDEXES)] == [0]
    assert session.steps[COMPARE] == "hidden 1, narrowed 1, superseded 1"


def test_a_first_load_costs_one_request(cluster: RehearsalCluster, tmp_path: Path) -> None:
    session = Session(cluster, tmp_path, index(1, only("a")))
    tighten(session, INDEXES)
    assert session.steps == {COMPARE: "no documents to compare"}
    assert session.paths == ["-web/_refresh"]
    assert not (tmp_path / ACL_CHANGES).exists()


def test_a_first_load_of_several_feeds_has_superseded_records(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path
) -> None:
    session = Session(cluster, tmp_path, index(1, public_fields()), index(1, only("a")))
    session.chunks = [replace(session.chunks[0], ordinal=at, origin=f"{at}.xml") for at in (1, 2)]
    indexes = replace(INDEXES, before={1: 0, 2: 2})
    assert [*tighten(session, indexes)] == [0, 1, 2]
    assert session.steps == {COMPARE: "no documents to compare, superseded 3"}
    assert session.paths == ["-web/_refresh", "-web/_count"]


def test_a_full_feed_is_compared_with_the_index_that_it_replaces(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path
) -> None:
    bulk(ask, *(index(number, only("a")) for number in range(4)))
    before = documents(ask)
    sent = index(1, only("b")), index(2, only("a")), index(9, only("a"))
    session = Session(cluster, tmp_path, *sent, is_full=True)
    tighten(session, INDEXES)
    assert session.steps == {COMPARE: "both 1, gone 2, new 1, same 1"}
    assert session.listed() == [("1", "both", "gs:Default:b", "gs:Default:a")]
    assert documents(ask) == before


@pytest.mark.parametrize(
    ("limit", "is_allowed"),
    [
        (ShareLimit(count=2), True),
        (ShareLimit(count=1), False),
        (ShareLimit(percent=Decimal(50)), True),
        (ShareLimit(percent=Decimal("49.9")), False),
    ],
)
def test_a_run_that_widens_more_documents_than_allowed_sends_nothing(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path, limit: ShareLimit, *, is_allowed: bool
) -> None:
    bulk(ask, *(index(number, only("a")) for number in range(4)))
    sent = index(0, only("a", "b")), index(1, only("b")), index(2, hidden_fields())
    session = Session(cluster, tmp_path, *sent)
    session.max_widened = limit
    before = documents(ask)
    if is_allowed:
        tighten(session, INDEXES)
        return
    with pytest.raises(StoppedError) as caught:
        tighten(session, INDEXES)
    assert str(caught.value) == (
        "http://127.0.0.1:9200/docs: 2 of 4 documents would be seen by more users; expected at"
        f" most {limit}, the limit of --max-widened; nothing was sent: check"
        f" {tmp_path / ACL_CHANGES}, then raise the limit to continue, or correct the"
        " source and begin a new run with --fresh"
    )
    assert (documents(ask), session.steps) == (before, {})
    assert len(session.listed()) == 3
    session.max_widened = None
    tighten(session, INDEXES)
    assert session.steps[NARROW] == "2 documents"


def test_the_list_stays_as_it_was_when_a_run_is_continued(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path
) -> None:
    bulk(ask, index(1, only("a")))
    session = Session(cluster, tmp_path, index(1, only("b")))
    tighten(session, INDEXES)
    del session.steps[NARROW]
    with pytest.raises(TargetError, match="0 records; expected 1: begin a new run"):
        tighten(session, INDEXES)
    assert session.listed() == [("1", "both", "gs:Default:b", "gs:Default:a")]
    (tmp_path / NARROWING).write_bytes(
        msgspec.json.encode(["web", "http://h/1", hidden_fields()]) + b"\n"
    )
    tighten(session, INDEXES)
    assert session.steps[NARROW] == "1 document"


def test_another_worker_continues_with_the_files_of_the_run_in_its_storage(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path
) -> None:
    bulk(ask, index(1, only("a")))
    sent = index(1, public_fields()), index(1, only("b"))
    storage = LocalStorage(tmp_path / "storage")
    (storage.root / "push").mkdir(parents=True)
    session = Session(cluster, tmp_path / "here" / "push", *sent)
    session.folder.mkdir(parents=True)
    with mirroring(tmp_path / "here", storage):
        session.fails_at = "_bulk"
        with pytest.raises(AssertionError):
            tighten(session, INDEXES)
    session.fails_at = "none"
    session.folder = tmp_path / "there" / "push"
    session.folder.mkdir(parents=True)
    with mirroring(tmp_path / "there", storage):
        assert [*tighten(session, INDEXES)] == [0]
        assert session.steps[NARROW] == "1 document"
        forget(session)
    assert [path.name for path in (storage.root / "push").iterdir()] == [ACL_CHANGES]


def test_many_documents_are_compared_page_by_page(
    cluster: RehearsalCluster, ask: Ask, tmp_path: Path
) -> None:
    bulk(ask, *(index(number, public_fields()) for number in range(2500)))
    session = Session(cluster, tmp_path, *(index(number, only("a")) for number in range(2500)))
    tighten(session, INDEXES)
    assert session.steps[COMPARE] == "narrower 2500, narrowed 2500"
    assert session.paths.count("-web/_search") == 3
    assert session.paths.count("-web/_bulk") == 3

"""Each stage on the in-process runner: the result of a good element, and of a bad one."""

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import apache_beam as beam
import msgspec
import pytest
from apache_beam.testing.util import assert_that, equal_to
from msgspec.structs import replace

from feedferry.pipelines.convert.workers.runners import LocalRunner
from feedferry.schemas.account import Account, Chunk, LossCount, merge
from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.feed import Hole
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.notice import Loss
from feedferry.schemas.record import Action, Arrival, Content, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.span import Span
from feedferry.transforms import stages
from feedferry.transforms.compare.comparison import Comparer, Difference
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import ReadOptions, ReadResult, WriteOptions
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sinks.push.outcome import PushAccount
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sources.files import sign_path
from feedferry.transforms.sources.programs.config import Programs
from feedferry.transforms.stages import (
    Adapt,
    CompareRecords,
    Convert,
    CutFile,
    Merge,
    Normalize,
    Push,
    ReadRecords,
    Transform,
    WriteChunks,
)
from feedferry.transforms.steps import StepConfig, Steps
from feedferry.transforms.steps.metadata_step import MetadataRules
from support.archives import BROKEN, HOST, document, documents, gsa_feed, jsonl, put
from support.fake_appliance import GSA, SUCCESS, Sent, chunk_of, replace_client
from support.listings import stream

pytestmark = pytest.mark.slow


def run(
    elements: list[Span | Account | Chunk],
    stage: beam.PTransform,
    check: Callable[[list[bytes]], None],
) -> None:
    """Run a stage over elements, and check its results."""
    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        assert_that(pipeline | beam.Create(encoded(*elements)) | stage, check)


def encoded(*elements: Span | Account | Chunk) -> list[bytes]:
    return [msgspec.json.encode(element) for element in elements]


JSONL = Target(format="jsonl")


def settings_of(folder: Path, target: Target = JSONL) -> Settings:
    return Settings(
        folder=str(folder),
        target=target,
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 20,
    )


def write_settings(folder: Path, *, feedtype: str | None = None) -> Settings:
    return settings_of(folder, Target(format="gsa-feed", datasource="pages", feedtype=feedtype))


def test_a_long_file_is_cut_into_spans(tmp_path: Path) -> None:
    source = put(tmp_path / "a", jsonl(f"{HOST}/a", f"{HOST}/b"))
    first = Span(source=source, format="jsonl", length=58, signature=sign_path(source))
    second = replace(first, ordinal=1, offset=58, length=None, line=2)

    whole = Span(source=source, format="jsonl")
    run([whole], CutFile(50), equal_to(encoded(first, second)))


@pytest.mark.parametrize("name", ["nowhere.avro", "a.avro"])
def test_a_missing_file_or_one_of_another_format_stays_one_span(tmp_path: Path, name: str) -> None:
    put(tmp_path / "a.avro", b"%PDF-1.4")
    whole = Span(source=str(tmp_path / name), format="avro")

    run([whole], CutFile(1), equal_to(encoded(whole)))


def test_spans_are_converted_and_a_stopped_one_does_not_end_the_pipeline(tmp_path: Path) -> None:
    text = gsa_feed(*documents(1, 2), BROKEN)
    good = Span(source=put(tmp_path / "a", text), format="gsa-feed")
    text_file = put(tmp_path / "b", b"hello")
    bad = Span(source=text_file, format="gsa-feed", ordinal=1, is_only=True)
    expected = [
        Account(
            read={"ADD": 2, "unreadable": 1},
            written={"ADD": 2},
            rejected={"unreadable": 1},
            reject_codes={"malformed": 1},
            holes=[
                Hole(
                    source=good.source,
                    span="00000-00000",
                    count=1,
                    first=f"{good.source}:5 (byte 348): an & that is not escaped; expected &amp;",
                )
            ],
            spans=1,
            bytes_read=len(text),
            bytes_stored=len(text),
            stored=["00000-00000.0.json"],
        ),
        Account(
            spans=1, stopped=f"{bad.source}:1: no element at all; expected <gsafeed>", exit_code=4
        ),
    ]

    def check(results: list[bytes]) -> None:
        accounts = [msgspec.json.decode(result, type=Account) for result in results]
        bare = [replace(item, chunks=[], files=[], reject_samples={}) for item in accounts]
        assert bare == expected

    run([good, bad], Convert(settings_of(tmp_path), 1 << 20), check)
    [chunk] = tmp_path.glob("00000-00000/*/00000-00000-000.jsonl")
    assert chunk.read_bytes().count(b"\n") == 2


def test_the_accounts_of_a_large_feed_are_the_same_in_parallel(tmp_path: Path) -> None:
    quoted = f"<![CDATA[{''.join(documents(90, 99))}]]>"
    records = [*documents(1, 20), BROKEN, *documents(21, 40), document(41, text=quoted)]
    text = gsa_feed(*records, *documents(42, 60))
    feed = Span(source=put(tmp_path / "a", text), format="gsa-feed")
    lines = put(tmp_path / "b", jsonl(*(f"{HOST}/{number}" for number in range(100))))
    other = Span(source=lines, format="jsonl", source_ordinal=1)

    def totals(*, is_parallel: bool, on_one_machine: bool = False) -> Account:
        folder = tmp_path / f"{is_parallel}-{on_one_machine}"
        folder.mkdir()
        settings = settings_of(folder)
        stage = Convert(settings, 2000, is_parallel=is_parallel, on_one_machine=on_one_machine)
        path = folder / "account.json"
        with beam.Pipeline(runner=LocalRunner()) as pipeline:
            accounts = pipeline | beam.Create(encoded(feed, other)) | stage | Merge()
            _ = accounts | beam.Map(path.write_bytes)
        total = msgspec.json.decode(path.read_bytes(), type=Account)
        names = [replace(c, path=Path(c.path).name) for c in total.chunks]
        return replace(total, chunks=names, files=[])

    in_turn = totals(is_parallel=False)
    assert in_turn.spans > 4
    assert sum(in_turn.written.values()) == 160
    assert totals(is_parallel=True) == in_turn
    assert totals(is_parallel=True, on_one_machine=True) == in_turn


def test_accounts_are_added_up_and_a_stopped_span_stops_the_run() -> None:
    lost = Loss(field="acl", url=f"{HOST}/a", detail="1 principal")
    early = Chunk(
        path="00000-00000-000.xml",
        bytes=1,
        sha256="",
        records={},
        first_url="",
        last_url="",
        source="",
        span=0,
    )
    late = replace(early, path="00000-00001-000.xml")
    accounts: list[Span | Account | Chunk] = [
        Account(read={"ADD": 2}, written={"ADD": 2}, chunks=[late], spans=1),
        Account(read={"ADD": 1}, losses={"acl": LossCount(1, (lost,))}, chunks=[early], spans=1),
        Account(spans=1, stopped="more than 0 rejects", exit_code=3),
    ]
    total = Account(
        read={"ADD": 3},
        written={"ADD": 2},
        losses={"acl": LossCount(1, (lost,))},
        chunks=[early, late],
        spans=3,
        stopped="more than 0 rejects",
        exit_code=3,
    )

    run(accounts, Merge(), equal_to(encoded(total)))


def test_accounts_are_merged_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def merge_counted(accounts: Iterable[Account]) -> Account:
        merged = list(accounts)
        sizes.append(len(merged))
        return merge(merged)

    monkeypatch.setattr(stages, "merge", merge_counted)
    total = Account(spans=300, read={"ADD": 600})
    run([Account(spans=1, read={"ADD": 2})] * 300, Merge(), equal_to(encoded(total)))
    assert sizes == [300]


def test_chunks_are_pushed_in_the_order_of_the_manifest_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = replace_client(monkeypatch, lambda _sent: SUCCESS)
    chunks = [chunk_of(tmp_path, number, str(number)) for number in (3, 1, 2)]
    push = Push(PushSettings(appliance=GSA), tmp_path, tmp_path / "push")

    def check(results: list[bytes]) -> None:
        [account] = [msgspec.json.decode(result, type=PushAccount) for result in results]
        assert [outcome.state.value for outcome in account.outcomes] == ["accepted"] * 3

    for _ in ("first attempt", "retry of the bundle"):
        run([*chunks], push, check)
    assert client.sent == [Sent(number, "incremental", (str(number),)) for number in (1, 2, 3)]


def answer(docid: str) -> bytes:
    return stream(f"id={docid}", "content") + docid.encode()


def test_spans_are_read_into_records_and_rejects(tmp_path: Path) -> None:
    source = put(tmp_path / "a", gsa_feed(*documents(1, 1), BROKEN))
    names = [put(tmp_path / name, answer(name)) for name in ("b", "c")]
    members = tuple(Span(source=name, format="retriever-stream") for name in names)
    spans = encoded(Span(source=source, format="gsa-feed"), Span(members=members))

    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        results = pipeline | beam.Create(spans) | ReadRecords()
        shown = results | beam.Map(lambda result: getattr(result, "code", "") or result.url)
        assert_that(shown, equal_to([f"{HOST}/1.txt", "malformed", "b", "c"]))


def test_programs_retrieve_the_documents_of_a_listing(tmp_path: Path) -> None:
    put(tmp_path / "ids", stream("id=good", "id=bad"))
    put(tmp_path / "good", answer("good"))
    script = f"cat {tmp_path}/$1"
    programs = Programs(lister=("true",), retriever=("sh", "-c", script, "sh"), retries=0)
    span = Span(source="ids", path=str(tmp_path / "ids"), format="adaptor")

    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        results = pipeline | beam.Create(encoded(span)) | ReadRecords(config=programs)
        shown = results | beam.Map(lambda result: getattr(result, "code", "") or result.url)
        assert_that(shown, equal_to(["good", "program-exit"]))


DOCUMENT = Record(
    url=f" {HOST}/plan.txt ",
    action=Action.ADD,
    arrival=Arrival.PUSHED,
    body="Plan",
    mimetype="text/plain",
    acl=Acl(principals=(Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),)),
    provenance=Provenance(source="feed.xml"),
)


def test_records_are_normalized_and_adapted_and_others_are_passed_on() -> None:
    crawled = Record(url=f"{HOST}/a", action=Action.ADD, arrival=Arrival.CRAWLED)
    reject = Reject(code="malformed", reason="an & that is not escaped", stage="read")
    group = Membership(group=Member(name="staff", scope=Scope.GROUP))
    public = replace(DOCUMENT, url=f"{HOST}/plan.txt", acl=None)
    loss = Loss(field="acl", url=public.url, detail="1 principal")
    adapt = Adapt(Target(format="thunderstone"), refused=frozenset({"content"}))

    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        results = pipeline | beam.Create([DOCUMENT, crawled, reject, group]) | adapt
        shown = results | beam.Map(
            lambda each: (each.code, bool(each.data)) if isinstance(each, Reject) else each
        )
        rejects = [("crawled", True), ("malformed", False)]
        left_out = Filtered(code="groups-left-out", url="staff", action="MEMBERSHIP")
        assert_that(shown, equal_to([public, loss, *rejects, left_out]))


def test_a_record_that_would_become_public_ends_the_pipeline() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    _ = pipeline | beam.Create([DOCUMENT]) | Adapt(Target(format="thunderstone"))

    message = f"feed.xml: {HOST}/plan.txt: acl: 1 principal; --accept-loss acl goes on without it"
    with pytest.raises(Exception, match=re.escape(message)):
        pipeline.run()


def test_records_are_normalized_or_changed_by_steps_and_rejects_are_passed_on() -> None:
    reject = Reject(code="malformed", reason="an & that is not escaped", stage="read")
    steps = Steps(steps=(StepConfig(metadata=MetadataRules(set={"a": ("b",)})),))

    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        results = pipeline | beam.Create([DOCUMENT, reject])
        urls = results | Normalize() | beam.Map(lambda each: each.url)
        assert_that(urls, equal_to([f"{HOST}/plan.txt", None]))
        changed = (
            results | Transform(steps) | beam.Map(lambda each: len(getattr(each, "metadata", ())))
        )
        assert_that(changed, equal_to([1, 0]), "changed")


def test_records_become_the_chunks_of_their_keys_and_the_same_again(tmp_path: Path) -> None:
    pairs = [
        (key, Record(url=f"{HOST}/{key}{number}", action=Action.DELETE))
        for key in "ba"
        for number in range(2)
    ]

    def check(lines: list[bytes]) -> None:
        with (tmp_path / "manifests").open("ab") as stream:  # a worker has a copy of this function
            stream.write(b"\n".join(lines) + b"\n")

    for elements in (pairs, pairs[::-1]):
        with beam.Pipeline(runner=LocalRunner()) as pipeline:
            write = WriteChunks(write_settings(tmp_path / "run"))
            assert_that(pipeline | beam.Create(elements) | write, check)
    lines = (tmp_path / "manifests").read_bytes().splitlines()
    assert lines[:2] == lines[2:]
    first = [msgspec.json.decode(line, type=Chunk) for line in lines[:2]]
    assert [chunk.ordinal for chunk in first] == [1, 2]
    assert [chunk.records for chunk in first] == [{"DELETE": 2}] * 2
    texts = [(tmp_path / "run" / chunk.path).read_text() for chunk in first]
    assert [f"{HOST}/a0" in text for text in texts] == [True, False]


def membership(name: str, *members: str) -> Membership:
    return Membership(
        group=Member(name=name, scope=Scope.GROUP),
        members=tuple(Member(name=member, scope=Scope.USER) for member in members),
    )


@pytest.mark.parametrize(
    ("format_", "expected"),
    [
        ("gsa-groups", [{"MEMBERSHIP": 2}]),
        ("avro", [{"ADD": 1}, {"MEMBERSHIP": 2}]),
        ("gsa-feed", [{"ADD": 1}, {"MEMBERSHIP": 2}]),
    ],
)
def test_groups_become_chunks_of_their_own_where_the_target_has_groups(
    tmp_path: Path, format_: str, expected: list[dict[str, int]]
) -> None:
    items = [DOCUMENT, membership("staff", "ann"), membership("board", "bob")]
    settings = replace(write_settings(tmp_path / "run"), target=Target(format=format_))
    if format_ == "gsa-feed":
        settings = replace(settings, target=write_settings(tmp_path).target)

    def check(lines: list[bytes]) -> None:
        chunks = [msgspec.json.decode(line, type=Chunk) for line in lines]
        assert [chunk.records for chunk in chunks] == expected
        assert [chunk.ordinal for chunk in chunks] == [*range(1, len(expected) + 1)]

    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        pairs = pipeline | beam.Create([("all", item) for item in items])
        assert_that(pairs | WriteChunks(settings), check)
    filtered = list((tmp_path / "run").rglob("*.filtered.jsonl"))
    assert bool(filtered) is (format_ == "gsa-groups")


def test_collections_of_records_are_compared_as_by_diff(tmp_path: Path) -> None:
    def page(name: str, text: bytes = b"plan", **fields: Any) -> Record:
        url = f"{HOST}/{name}"
        return Record(url=url, action=Action.ADD, content=Content(text), **fields)

    before = [page("gone"), page("same"), page("text"), page("title", title="old")]
    after = [page("new"), page("same"), page("text", b"new"), page("title", title="new")]
    groups = [membership("staff", "ann")], [membership(" staff ", "ann", "bob")]
    sides: tuple[list[ReadResult], ...] = ([*before, *groups[0]], [*after, *groups[1]])
    with closing(Comparer(tmp_path)) as comparer:
        comparer.add_before(sides[0])
        comparer.add_after(sides[1])
        comparer.compare()
        expected = sorted((row.url, row.change, row.fields) for row in comparer.differences())
    assert len(expected) == 5

    def check(found: list[Difference]) -> None:
        assert sorted((row.url, row.change, row.fields) for row in found) == expected

    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        first, second = (
            pipeline | name >> beam.Create(items)
            for name, items in zip(("First", "Second"), sides, strict=True)
        )
        assert_that((first, second) | CompareRecords(), check)


def test_a_url_with_two_records_is_not_compared() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    first = pipeline | "First" >> beam.Create([DOCUMENT, DOCUMENT])
    second = pipeline | "Second" >> beam.Create([DOCUMENT])
    _ = (first, second) | CompareRecords()
    with pytest.raises(Exception, match="several records in one input; expected one"):
        pipeline.run()


@pytest.mark.parametrize(
    ("record", "feedtype", "message"),
    [
        (DOCUMENT, "full", "a full feed; expected another feedtype"),
        (Reject(code="x", reason="y", stage="read"), "incremental", "a Reject; expected records"),
    ],
)
def test_full_feeds_and_rejects_are_not_written(
    tmp_path: Path, record: Record | Reject, feedtype: str, message: str
) -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    write = WriteChunks(write_settings(tmp_path, feedtype=feedtype))
    with_key = beam.Map(lambda each: ("a", each)).with_output_types(Any)
    _ = pipeline | beam.Create([record]) | with_key | write
    with pytest.raises(Exception, match=message):
        pipeline.run()

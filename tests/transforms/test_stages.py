"""Each stage on the in-process runner: what a good element becomes, and a bad one."""

import re
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import msgspec
import pytest
from apache_beam.testing.util import assert_that, equal_to

from pipelines.convert.runners import LocalRunner
from schemas.account import Account, Chunk, LossCount
from schemas.acl import Access, Acl, Principal, Scope
from schemas.loss import Loss
from schemas.record import Action, Arrival, Content, Provenance, Record
from schemas.reject import Reject, reject_record
from schemas.span import Span
from support.archives import BROKEN, HOST, documents, gsa_feed, native, put
from support.fake_appliance import GSA, SUCCESS, Sent, chunk_of, replace_client
from support.listings import stream
from transforms.adapt import Target
from transforms.convert import Settings
from transforms.formats import ReadOptions, WriteOptions
from transforms.sinks.push.outcome import PushAccount
from transforms.sinks.push.pusher import PushPaths
from transforms.sinks.push.settings import PushSettings
from transforms.sources.programs.config import Programs
from transforms.sources.signature import sign_path
from transforms.stages import (
    Adapt,
    Convert,
    CutFile,
    Merge,
    Normalize,
    Push,
    ReadRecords,
    Retrieve,
)

pytestmark = pytest.mark.slow

FIRST = Chunk(
    path="00000-00000-000.xml",
    bytes=1,
    sha256="",
    records={},
    first_url="",
    last_url="",
    source="",
    span=0,
)
SECOND = msgspec.structs.replace(FIRST, path="00000-00001-000.xml")
Matcher = Callable[[list[bytes]], None]


@pytest.fixture
def pipeline() -> beam.Pipeline:
    """Not entered: who enters it sees it run when the block ends."""
    return beam.Pipeline(runner=LocalRunner())


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        folder=str(tmp_path),
        target=Target(format="native"),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=1 << 20,
    )


def encoded(*ones: Span | Account) -> list[bytes]:
    return [msgspec.json.encode(one) for one in ones]


def accounts_are(*expected: Account) -> Matcher:
    """Compares accounts without their chunks and files."""

    def match(found: list[bytes]) -> None:
        accounts = [msgspec.json.decode(one, type=Account) for one in found]
        counts = [msgspec.structs.replace(one, chunks=[], files=[]) for one in accounts]
        assert counts == list(expected)

    return match


def test_a_long_file_becomes_its_spans(pipeline: beam.Pipeline, tmp_path: Path) -> None:
    source = put(tmp_path / "a", native(f"{HOST}/a", f"{HOST}/b"))
    signature = sign_path(source)
    first = Span(source=source, format="native", length=58, signature=signature)
    second = msgspec.structs.replace(first, ordinal=1, offset=58, length=None, line=2)

    with pipeline:
        spans = pipeline | beam.Create(encoded(Span(source=source, format="native"))) | CutFile(50)
        assert_that(spans, equal_to(encoded(first, second)))


def test_a_file_that_cannot_be_cut_stays_one_span(pipeline: beam.Pipeline) -> None:
    whole = Span(source="nowhere.xml", format="gsa-feed")

    with pipeline:
        spans = pipeline | beam.Create(encoded(whole)) | CutFile(50)
        assert_that(spans, equal_to(encoded(whole)))


def test_a_file_of_another_format_stays_one_span(pipeline: beam.Pipeline, tmp_path: Path) -> None:
    whole = Span(source=put(tmp_path / "a", b"%PDF-1.4"), format="avro")

    with pipeline:
        spans = pipeline | beam.Create(encoded(whole)) | CutFile(1)
        assert_that(spans, equal_to(encoded(whole)))


def test_a_span_becomes_its_account(
    pipeline: beam.Pipeline, tmp_path: Path, settings: Settings
) -> None:
    text = gsa_feed(*documents(1, 2), BROKEN)
    span = Span(source=put(tmp_path / "a", text), format="gsa-feed")
    account = Account(
        read={"ADD": 2, "UNKNOWN": 1},
        written={"ADD": 2},
        rejected={"UNKNOWN": 1},
        reject_codes={"malformed": 1},
        rejects_of={span.source: 1},
        spans=1,
        bytes_read=len(text),
    )

    with pipeline:
        accounts = pipeline | beam.Create(encoded(span)) | Convert(settings)
        assert_that(accounts, accounts_are(account))


def test_a_chunk_stands_when_its_account_is_there(
    pipeline: beam.Pipeline, tmp_path: Path, settings: Settings
) -> None:
    span = Span(source=put(tmp_path / "a", gsa_feed(*documents(1, 2))), format="gsa-feed")

    with pipeline:
        _ = pipeline | beam.Create(encoded(span)) | Convert(settings)

    [chunk] = tmp_path.glob("00000-00000/*/00000-00000-000.jsonl")
    assert chunk.read_bytes().count(b"\n") == 2


def test_a_span_that_is_stopped_does_not_end_the_pipeline(
    pipeline: beam.Pipeline, tmp_path: Path, settings: Settings
) -> None:
    span = Span(source=put(tmp_path / "a", b"hello"), format="gsa-feed")
    reason = f"{span.source}:1: no element at all; expected <gsafeed>"

    with pipeline:
        accounts = pipeline | beam.Create(encoded(span)) | Convert(settings)
        assert_that(accounts, accounts_are(Account(spans=1, stopped=reason, exit_code=4)))


def test_accounts_are_added_up(pipeline: beam.Pipeline) -> None:
    lost = Loss(field="acl", url=f"{HOST}/a", detail="1 principal")
    one = Account(
        read={"ADD": 2}, written={"ADD": 2}, losses={"acl": LossCount(1, (lost,))}, spans=1
    )
    other = Account(
        read={"ADD": 1, "DELETE": 1}, written={"ADD": 1}, filtered={"DELETE": 1}, spans=1
    )
    total = Account(
        read={"ADD": 3, "DELETE": 1},
        written={"ADD": 3},
        filtered={"DELETE": 1},
        losses={"acl": LossCount(1, (lost,))},
        spans=2,
    )

    with pipeline:
        merged = pipeline | beam.Create(encoded(one, other)) | Merge()
        assert_that(merged, equal_to(encoded(total)))


def test_chunks_stand_in_the_order_of_their_spans(pipeline: beam.Pipeline) -> None:
    late, early = Account(chunks=[SECOND]), Account(chunks=[FIRST])

    with pipeline:
        merged = pipeline | beam.Create(encoded(late, early)) | Merge()
        assert_that(merged, equal_to(encoded(Account(chunks=[FIRST, SECOND]))))


def test_one_span_that_is_stopped_stops_the_run(pipeline: beam.Pipeline) -> None:
    stopped = Account(spans=1, stopped="more than 0 rejects", exit_code=3)
    total = Account(read={"ADD": 1}, spans=2, stopped="more than 0 rejects", exit_code=3)

    with pipeline:
        merged = (
            pipeline | beam.Create(encoded(Account(read={"ADD": 1}, spans=1), stopped)) | Merge()
        )
        assert_that(merged, equal_to(encoded(total)))


def test_a_span_becomes_its_records_and_rejects(pipeline: beam.Pipeline, tmp_path: Path) -> None:
    source = put(tmp_path / "a", gsa_feed(*documents(1, 1), BROKEN))

    with pipeline:
        span = encoded(Span(source=source, format="gsa-feed"))
        found = pipeline | beam.Create(span) | ReadRecords(ReadOptions())
        assert_that(found | beam.Map(type), equal_to([Record, Reject]))


PADDED = Record(url=f" {HOST}/a ", action=Action.DELETE)
TIDY = Record(url=f"{HOST}/a", action=Action.DELETE)
CRAWLED = Record(url=f"{HOST}/a", action=Action.ADD, arrival=Arrival.CRAWLED)
REJECT = Reject(code="malformed", reason="an & that is not escaped", stage="read")


def test_a_record_becomes_normal_and_a_reject_stays(pipeline: beam.Pipeline) -> None:
    with pipeline:
        found = pipeline | beam.Create([PADDED, REJECT]) | Normalize()
        assert_that(found, equal_to([TIDY, REJECT]))


def test_a_record_is_adapted_and_one_that_the_target_refuses_is_a_reject(
    pipeline: beam.Pipeline,
) -> None:
    reason = (
        "a URL to be crawled; expected a document, because a dataload fetches none; the"
        " crawler takes such URLs as a list"
    )
    refused = reject_record(CRAWLED, code="crawled", reason=reason, stage="adapt")

    with pipeline:
        found = pipeline | beam.Create([TIDY, CRAWLED]) | Adapt(Target(format="thunderstone"))
        assert_that(found, equal_to([TIDY, refused]))


PROTECTED = Record(
    url=f"{HOST}/plan.txt",
    action=Action.ADD,
    arrival=Arrival.PUSHED,
    body="Plan",
    mimetype="text/plain",
    acl=Acl(principals=(Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),)),
    provenance=Provenance(source="feed.xml"),
)


def test_a_record_that_would_become_public_ends_the_pipeline(pipeline: beam.Pipeline) -> None:
    _ = pipeline | beam.Create([PROTECTED]) | Adapt(Target(format="thunderstone"))

    message = f"feed.xml: {HOST}/plan.txt: acl: 1 principal; --accept-loss acl goes on without it"
    with pytest.raises(Exception, match=re.escape(message)):
        pipeline.run()


def test_a_loss_that_is_accepted_stands_beside_its_record(pipeline: beam.Pipeline) -> None:
    accepting = Adapt(Target(format="thunderstone"), refused=frozenset({"content"}))
    public = msgspec.structs.replace(PROTECTED, acl=None)
    loss = Loss(field="acl", url=PROTECTED.url, detail="1 principal")

    with pipeline:
        found = pipeline | beam.Create([PROTECTED]) | accepting
        assert_that(found, equal_to([public, loss]))


def answer(docid: str) -> bytes:
    return stream(f"id={docid}", "content") + docid.encode()


def said(url: str) -> Record:
    """What is retrieved of the one document of the listing."""
    place = Provenance(source="ids", offset=31)
    content = Content(url.encode())
    return Record(
        url=url, action=Action.ADD, arrival=Arrival.PUSHED, content=content, provenance=place
    )


def test_a_listing_becomes_its_documents_and_rejects(
    pipeline: beam.Pipeline, tmp_path: Path
) -> None:
    put(tmp_path / "ids", stream("id=good", "id=bad"))
    put(tmp_path / "good", answer("good"))
    script = f"cat {tmp_path}/$1"
    programs = Programs(lister=("true",), retriever=("sh", "-c", script, "sh"), retries=0)
    span = Span(source="ids", path=str(tmp_path / "ids"), format="lister-stream")

    with pipeline:
        found = pipeline | beam.Create(encoded(span)) | Retrieve(programs, ReadOptions())
        kinds = found | beam.Map(lambda one: one if isinstance(one, Record) else one.code)
        assert_that(kinds, equal_to([said("good"), "program-exit"]))


def test_files_that_are_one_span_are_read_one_behind_the_other(
    pipeline: beam.Pipeline, tmp_path: Path
) -> None:
    names = [put(tmp_path / name, answer(name)) for name in ("a", "b")]
    members = tuple(Span(source=name, format="retriever-stream") for name in names)

    with pipeline:
        spans = pipeline | beam.Create(encoded(Span(members=members)))
        urls = spans | ReadRecords(ReadOptions()) | beam.Map(lambda one: one.url)
        assert_that(urls, equal_to(["a", "b"]))


def push_of(folder: Path) -> Push:
    return Push(PushSettings(appliance=GSA), PushPaths(root=folder, folder=folder / "push"))


def test_chunks_in_any_order_are_pushed_in_that_of_the_manifest(
    pipeline: beam.Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = replace_client(monkeypatch, lambda _sent: SUCCESS)
    chunks = [chunk_of(tmp_path, number, str(number)) for number in (3, 1, 2)]

    def accepted(found: list[bytes]) -> None:
        [pushed] = [msgspec.json.decode(one, type=PushAccount) for one in found]
        assert pushed.count_states() == {"accepted": 3}

    with pipeline:
        given = pipeline | beam.Create([msgspec.json.encode(chunk) for chunk in chunks])
        assert_that(given | push_of(tmp_path), accepted)
    assert [sent.chunk for sent in client.sent] == [1, 2, 3]


def test_a_push_whose_bundle_is_tried_again_sends_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = replace_client(monkeypatch, lambda _sent: SUCCESS)
    chunks = [msgspec.json.encode(chunk_of(tmp_path, number, str(number))) for number in (1, 2)]

    def attempt() -> None:
        with beam.Pipeline(runner=LocalRunner()) as pipeline:
            _ = pipeline | beam.Create(chunks) | push_of(tmp_path)

    attempt()
    attempt()
    assert client.sent == [Sent(1, "incremental", ("1",)), Sent(2, "incremental", ("2",))]

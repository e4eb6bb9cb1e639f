"""Each stage on the in-process runner: what a good element becomes, and a bad one."""

from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import msgspec
import pytest
from apache_beam.testing.util import assert_that, equal_to

from pipelines.convert.runners import LocalRunner
from schemas.account import Account, Chunk, LossCount
from schemas.notice import Loss
from schemas.span import Span
from support.archives import BROKEN, HOST, documents, gsa_feed, native, put
from support.fake_appliance import GSA, SUCCESS, Sent, chunk_of, replace_client
from transforms.adapt import Target
from transforms.convert import Settings
from transforms.formats import ReadOptions, WriteOptions
from transforms.sinks.push.outcome import PushAccount
from transforms.sinks.push.pusher import PushPaths
from transforms.sinks.push.settings import PushSettings
from transforms.sources.signature import sign_path
from transforms.stages import Convert, CutFile, Merge, Push

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

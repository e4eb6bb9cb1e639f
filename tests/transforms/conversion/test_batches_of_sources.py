"""Batches of other sources than feeds are converted to the result of single records."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.record import Action, Meta, Provenance, Record
from feedferry.testing.strategies import moments, provenances, records
from feedferry.transforms.formats import Docids, Encoder, ReadOptions, StreamOptions, by_name
from feedferry.transforms.formats.canonical.avro import AvroEncoder
from feedferry.transforms.formats.canonical.jsonl import JsonlEncoder
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns
from feedferry.transforms.formats.fast_path.plans.batch_plan import BatchPlan
from feedferry.transforms.rules.adapt import Target
from support.batches import SIZES, conversion

_IDS = ("a", "docs/b c.pdf", "/docs/Z\u00fcrich", "\u6771\u4eac", "x?a=1&b=2", "it's", "%20")
_URLS = ("http://www.example.com/a", "https://docs.example.org/x?a=1&b=\u00fc", "smb://server/a")
_HOSTILE = (
    *("", " ", " a", "a ", '"', 'a"b', "<", ">", "a<b>", "&amp;", "&#65;", "&", "\t", "\r", "a\r"),
    *("\x07", "\x7f", "\x85", "\u00a0", "\u2028", "\ufffe", "\uffff", "\u200f", "\U0001f600"),
    *("\udcff", "\udcc0\udc80", "\udcc0\udc8a", "\udced\udca0\udc80", "x" * 5000, "~hole-0000~"),
    *("a:b", "://", "a://", "http://", "http://intranet/a", "http://10.0.0.1/", "HTTP://A.B/c"),
    *("http://hole-0000.example.com/~", "http://www.example.com/a b", "//", "/", "..", "../a"),
    *("index.html", "_index.htm", "id=x", "lock", "id-list", "%", "%zz"),
)


def unbroken(text: str) -> str:
    """A text without lone surrogates, which no archive has."""
    return text.encode("utf-8", "replace").decode()


_DATES = ("last-modified=0", "last-modified=1312387643", "last-modified=99999999999")
_FLAGS = ("lock", "crawl-once", "crawl-immediately", "delete")
_HOSTILE_COMMANDS = (
    *("last-modified=-5", "last-modified=007", "last-modified=253402300800", "last-modified="),
    *("last-modified=20110803 16:07:23", "lock=false", "delete=no", "what=ever", "acl", "result"),
    *("result-link=http://www.example.com/", "meta-name=a", "repository-unavailable=x", "xid=a"),
)
RULES = (
    Docids(),
    Docids(base_url="http://adaptor.example.com/doc/"),
    Docids(template="https://docs.example.com/view?id={id}"),
)
TARGETS: dict[str, dict[str, Any]] = {
    "avro": {},
    "avro, renamed": {"datasource": "other", "feedtype": "full"},
    "gsa-feed": {"datasource": "web", "feedtype": "metadata-and-url"},
    "gsa-feed, strict": {"datasource": "d", "feedtype": "incremental", "urls": "strict"},
    "jsonl": {},
    "lister-stream": {},
    "thunderstone": {},
}


def target_of(name: str) -> Target:
    return Target(format=name.partition(",")[0], **TARGETS[name])


@st.composite
def listings(draw: st.DrawFn) -> bytes:
    """Streams of ids that are alike, with hostile ones now and then."""
    delimiter = draw(st.sampled_from(("\0", "\n", "\0", "\n", "~", "\r\n")))
    ids = st.sampled_from(draw(st.sampled_from((_IDS, _URLS))) * 40 + _HOSTILE)
    shapes = draw(
        st.lists(st.lists(st.sampled_from((*_DATES, *_FLAGS)), max_size=3), min_size=1, max_size=3)
    )
    tokens = []
    for _ in range(draw(st.integers(1, 6))):
        count = draw(st.integers(1, 9))
        if draw(st.integers(0, 3)):
            for _ in range(count):
                tokens += [f"id={draw(ids)}", *draw(st.sampled_from(shapes))]
        else:
            tokens += ["id-list", *(draw(ids) for _ in range(count)), ""]
        if not draw(st.integers(0, 4)):
            tokens.append(draw(st.sampled_from(_HOSTILE_COMMANDS)))
    text = delimiter.join((f"GSA Adaptor Data Version 1 [{delimiter}]", *tokens, ""))
    return text.encode("utf-8", "surrogateescape")


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60)
@given(
    listing=listings(),
    own=st.builds(StreamOptions, docids=st.sampled_from(RULES), strict=st.booleans()),
    size=st.sampled_from(SIZES),
    chunk=st.sampled_from((900, 5000, 1 << 20)),
)
def test_batches_of_a_listing_give_the_result_of_single_records(
    name: str, listing: bytes, own: StreamOptions, size: int, chunk: int
) -> None:
    options = ReadOptions(own=(own,))
    single, batched = (
        conversion(
            listing,
            target_of(name),
            format_="lister-stream",
            batch_records=records,
            reading=options,
            max_chunk_bytes=chunk,
        )
        for records in (0, size)
    )
    assert batched == single


_TEXTS = st.sampled_from((*_IDS, "x" * 300) * 30 + tuple(map(unbroken, _HOSTILE)))
_STATED_URLS = st.sampled_from(_URLS * 40 + tuple(map(unbroken, _HOSTILE)))


_MARKED: dict[str, Any] = {
    "mimetype": "~hole-0000~",
    "metadata": (Meta("~hole-0001~", "a"), Meta("a ~hole-0002~", "b"), Meta("c", "~hole-0003~")),
    "acl": Acl(inherit_from="http://hole-0000.example.com/~"),
}
"""Constants that equal holes of a model, or contain them."""


@st.composite
def alike(draw: st.DrawFn) -> list[Record]:
    """Records of a few models, with neutral and hostile values in the fields that differ."""
    models = draw(st.lists(records(provenance=provenances()), min_size=1, max_size=3))
    if draw(st.booleans()):
        models = [replace(model, **_MARKED) for model in models]
    return [draw(_similar(draw(st.sampled_from(models)))) for _ in range(draw(st.integers(2, 24)))]


@st.composite
def _similar(draw: st.DrawFn, model: Record) -> Record:
    names = ("title", "description", "keywords")
    changed: dict[str, Any] = {name: draw(_TEXTS) for name in names if getattr(model, name)}
    times = ("modified", "visited", "next_check")
    changed |= {name: draw(moments()) for name in times if getattr(model, name)}
    metadata = tuple(
        replace(meta, value=draw(_TEXTS)) if meta.data is None else meta for meta in model.metadata
    )
    place = replace(model.provenance, line=draw(st.integers(0, 9)), offset=draw(st.integers(0, 99)))
    return replace(model, url=draw(_STATED_URLS), metadata=metadata, provenance=place, **changed)


@pytest.mark.slow
@pytest.mark.parametrize("source", [AvroEncoder(), JsonlEncoder()])
@pytest.mark.parametrize("name", ["avro, renamed", "gsa-feed", "jsonl", "thunderstone"])
@settings(max_examples=40)
@given(
    archived=alike(),
    block=st.integers(1, 6),
    damage=st.none() | st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)),
    size=st.sampled_from(SIZES),
)
def test_batches_of_an_archive_give_the_result_of_single_records(  # noqa: PLR0913, PLR0917 - of a property
    source: Encoder,
    name: str,
    archived: list[Record],
    block: int,
    damage: tuple[int, int] | None,
    size: int,
) -> None:
    datums = [source.encode(record) for record in archived]
    frames = [source.frame(datums[at : at + block]) for at in range(0, len(datums), block)]
    body = bytearray(b"".join(frames))
    if damage:
        body[damage[0] % len(body)] = damage[1]
    single, batched = (
        conversion(
            source.prolog() + body,
            target_of(name),
            format_=source.extension,
            batch_records=batch_records,
            max_chunk_bytes=1 << 22,
        )
        for batch_records in (0, size)
    )
    assert batched == single


@pytest.mark.parametrize("encoder", [AvroEncoder(), JsonlEncoder()])
def test_records_of_an_archive_that_are_alike_are_read_in_batches(encoder: Encoder) -> None:
    model = Record(
        url="http://www.example.com/",
        action=Action.ADD,
        metadata=(Meta("a", "1"), Meta("b", "2")),
        modified=datetime(2007, 11, 6, 12, 45, tzinfo=UTC),
        provenance=Provenance(source="f", datasource="d", feedtype="full"),
    )
    archived = [
        replace(
            model,
            url=f"http://www.example.com/{number}",
            metadata=model.metadata[number % 2 :],
            provenance=replace(model.provenance, offset=number),
        )
        for number in range(40)
    ]
    data = encoder.prolog() + encoder.frame([encoder.encode(record) for record in archived])
    options = ReadOptions(batch_records=30)
    batches = list(by_name(encoder.extension).read(io.BytesIO(data), options=options))
    assert [len(batch.order) for batch in batches if isinstance(batch, RecordBatch)] == [30, 10]
    singles = [record for batch in batches if isinstance(batch, RecordBatch) for record in batch]
    assert singles == archived


def listing_of(docid: str, *commands: str) -> bytes:
    tokens = [
        token.format(number) for number in range(100, 121) for token in (f"id={docid}", *commands)
    ]
    return "\n".join(("GSA Adaptor Data Version 1 [\n]", *tokens, "")).encode()


@pytest.mark.parametrize("name", ["avro", "gsa-feed", "jsonl", "lister-stream"])
@pytest.mark.parametrize("commands", [(), ("last-modified=13000{}", "lock"), ("delete",)])
def test_ids_of_a_listing_are_written_by_a_plan(
    name: str, commands: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = listing_of("docs/{}?a=1&b=2", *commands)
    assert planned(data, target_of(name), RULES[1], monkeypatch) == 21 - 2


@pytest.mark.parametrize("name", ["avro", "jsonl", "lister-stream"])
@pytest.mark.parametrize("commands", [(), ("last-modified=13000{}",)])
def test_document_ids_that_are_no_urls_are_written_by_a_plan(
    name: str, commands: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = listing_of("/docs/Z\u00fcrich {}.pdf", *commands)
    assert planned(data, target_of(name), RULES[0], monkeypatch) == 21 - 2


def planned(data: bytes, target: Target, docids: Docids, patch: pytest.MonkeyPatch) -> int:
    """The number of records by a plan: not the first, and not the last, which may go on."""
    counts = []
    encode_each = BatchPlan.encode_each

    def count(plan: BatchPlan, columns: Columns) -> list[bytes]:
        counts.append(columns.count)
        return encode_each(plan, columns)

    patch.setattr(BatchPlan, "encode", lambda _plan, _columns: None)
    patch.setattr(BatchPlan, "encode_each", count)
    options = ReadOptions(own=(StreamOptions(docids=docids),))
    conversion(data, target, format_="lister-stream", batch_records=4, reading=options)
    return sum(size for size in counts if size > 1)

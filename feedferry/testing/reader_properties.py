"""What has to hold for every input of every reader and its cutter.

A case is read through the stream class of production: at once, in pieces, and span by span.
"""

import io
import signal
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import IO, NamedTuple

import msgspec

from feedferry.schemas.errors import FeedferryError, FormatError, RecordError
from feedferry.schemas.feed import Feed, FeedHeader
from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Authmethod, Crawl, Provenance, Record
from feedferry.schemas.reject import DEFECT, Filtered, Reject
from feedferry.schemas.span import ContainerHeader, Span, SpanEnd
from feedferry.transforms.formats import (
    FORMATS,
    ReadOptions,
    ReadResult,
    StreamOptions,
    WriteOptions,
)
from feedferry.transforms.formats.base import Encoder
from feedferry.transforms.formats.columns.element_block import ElementBlock
from feedferry.transforms.formats.columns.record_batch import RecordBatch
from feedferry.transforms.formats.columns.singly import singly
from feedferry.transforms.rules.adapt import Target, adapter
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.sources.files import ByteRangeStream, SpanStream
from kits import Kit
from support.batches import SIZES, by_parser, conversion

SOURCE = "f"
CPU_SECONDS = 20
"""Processor time after which a case counts as one that hangs."""
_FREE_RESULTS = 16
_MEMORY_BYTES = 64 << 20
_MEMORY_FACTOR = 100
_NOWHERE = Provenance()
_TARGETS = tuple(format_.name for format_ in FORMATS if format_.holds.actions and format_.encoder)


class Violation(AssertionError):  # noqa: N818 - a property does not hold
    """A property does not hold; `name` is what findings of one kind have in common."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class Reading(NamedTuple):
    """What was found until the end, or until an error; this by its text."""

    items: list[ReadResult]
    error: str


class Pieces(io.RawIOBase):
    """A stream that gives a few bytes at a time; `sizes` are repeated."""

    def __init__(self, data: bytes, sizes: tuple[int, ...]) -> None:
        self._stream = io.BytesIO(data)
        self._sizes = sizes
        self._reads = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        most = self._sizes[self._reads % len(self._sizes)]
        self._reads += 1
        return self._stream.read(most if size < 0 else min(size, most))


def check(kit: Kit, data: bytes, *, seed: int, memory: bool = False) -> None:
    """Raise Violation where a property does not hold for one input."""
    random = Random(seed)
    options = random.choice(kit.options)
    with _watched(), _contained():
        whole = _read(kit, data, options)
        _check_places(kit, data, whole)
        _check_pieces(kit, data, options, whole, random)
        _check_spans(kit, data, options, whole, random)
        _check_parser(kit, data, options, whole)
        _check_round_trip(kit, whole.items, options)
        _check_batches(kit, data, options, whole, random)
        if memory:
            _check_memory(kit, data, options)


def production_stream(stream: IO[bytes] | io.RawIOBase, length: int | None = None) -> SpanStream:
    """Return the stream that a reader is given by `convert`."""
    return SpanStream(ByteRangeStream(stream, SOURCE, length))


@contextmanager
def _watched() -> Iterator[None]:
    """Raise Violation in a case that takes too much processor time: other programs do not count."""

    def hangs(signum: int, frame: FrameType | None) -> None:
        raise Violation("hang", f"more than {CPU_SECONDS} s of processor time")

    before = signal.signal(signal.SIGVTALRM, hangs)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _contained() -> Iterator[None]:
    """Turn unexpected exceptions into violations that name their place."""
    try:
        yield
    except Violation:
        raise
    except Exception as exc:
        traceback = exc.__traceback__
        place = ""
        while traceback is not None:
            frame = traceback.tb_frame
            if str(frame.f_globals.get("__name__", "")).startswith("feedferry."):
                place = f"{frame.f_globals['__name__']}:{traceback.tb_lineno}"
            traceback = traceback.tb_next
        raise Violation(f"raises {type(exc).__name__} in {place}", str(exc)) from exc


def _read(kit: Kit, data: bytes, options: ReadOptions) -> Reading:
    return _outcome(kit, io.BytesIO(data), len(data), Span(source=SOURCE), options)


def _outcome(
    kit: Kit, stream: IO[bytes] | io.RawIOBase, size: int, span: Span, options: ReadOptions
) -> Reading:
    """Read a span, and check that the reader makes progress."""
    most = size * kit.results_per_byte + _FREE_RESULTS
    items: list[ReadResult] = []
    reader = kit.format.read
    try:
        length = None if span.grid else span.length
        results = reader(production_stream(stream, length), span=span, options=options)
        for number, result in enumerate(results, start=1):
            if number > most:
                raise Violation("no progress", f"{number} results of {size} bytes: {result!r}")
            if not isinstance(result, FeedHeader):  # it has no place, and each span may have one
                items.append(result)
            if isinstance(result, Reject) and result.code == DEFECT:
                raise Violation(f"defect {result.reason.partition(';')[0]}", repr(result))
    except FeedferryError as exc:
        return Reading(items, f"{type(exc).__name__}: {exc}")
    return Reading(items, "")


def _check_places(kit: Kit, data: bytes, whole: Reading) -> None:
    """Rejects lie in the input, one after the other, and hold the bytes of their place."""
    at = 0
    for number, result in enumerate(whole.items):
        if not isinstance(result, Reject):
            continue
        end = result.offset + result.length
        if not 0 <= result.offset <= end <= len(data):
            raise Violation("reject outside", f"{result!r} in {len(data)} bytes")
        if not kit.is_placed:
            continue
        if result.offset < at:
            raise Violation("rejects overlap", f"{result!r} after byte {at}")
        if not result.length and not _are_notices(whole.items[number + 1 :]):
            raise Violation("empty reject", repr(result))
        if not data.startswith(result.data, result.offset) or len(result.data) > result.length:
            raise Violation("reject has other bytes", repr(result))
        if result.truncated != (len(result.data) < result.length):
            raise Violation("reject truncated in silence", repr(result))
        at = end


def _check_pieces(
    kit: Kit, data: bytes, options: ReadOptions, whole: Reading, random: Random
) -> None:
    sizes = random.choice(((1,), (1, 2, 3), (7,), (64, 1), (1000,), (4096, 5)))
    outcome = _outcome(kit, Pieces(data, sizes), len(data), Span(source=SOURCE), options)
    if outcome != whole:
        raise Violation("pieces differ", f"{sizes}: {_difference(whole, outcome)}")


def _check_spans(
    kit: Kit, data: bytes, options: ReadOptions, whole: Reading, random: Random
) -> None:
    """Spans are end to end, and give what the whole gives."""
    size = random.choice((1, 50, 300, 1000))
    spans: list[Span] = []
    stream = production_stream(io.BytesIO(data))
    at = 0
    try:
        for span in kit.format.split(stream, source=SOURCE, span_bytes=size):
            if len(spans) > len(data) + 1:
                raise Violation("cut without progress", repr(span))
            if span.offset != at or (span.length is not None and span.length <= 0):
                raise Violation("spans not end to end", f"{span!r} at {at}")
            at += span.length or 0
            spans.append(span)
    except FeedferryError as exc:
        if not isinstance(exc, FormatError) or not whole.error:
            raise Violation("cut refuses what is read", str(exc)) from exc
        return
    if not spans or spans[-1].length is not None or at > len(data):
        raise Violation("spans without an end", repr(spans[-1:]))
    items: list[ReadResult] = []
    error = ""
    for span in spans:
        part = _part(kit, data, span, options)
        items += [item for item in part.items if not isinstance(item, SpanEnd)]
        if error := part.error:
            break
    if kit.format.borders is not None:
        in_turn = _read_in_turn(kit, data, Span(source=SOURCE, grid=size), options, spans)
        if in_turn != (alone := Reading(items, error)):
            raise Violation("spans in turn are read otherwise", _difference(alone, in_turn))
    restored = Reading(list(map(_without_span, items)), error)
    count = len(whole.items) if whole.error else None  # a span may end just before the error
    if restored.items[:count] != whole.items or bool(error) != bool(whole.error):
        raise Violation("spans differ", f"{size}: {_difference(whole, restored)}")


def _part(kit: Kit, data: bytes, span: Span, options: ReadOptions) -> Reading:
    """Return what is read of a span, with the header of its container as of a file."""
    if isinstance(span.position, ContainerHeader):
        header = ContainerHeader(span.position.length, data[: span.position.length])
        span = msgspec.structs.replace(span, position=header)
    return _outcome(kit, io.BytesIO(data[span.offset :]), len(data), span, options)


def _read_in_turn(
    kit: Kit, data: bytes, span: Span | None, options: ReadOptions, cut: list[Span]
) -> Reading:
    """Return what is read of spans of a grid, which begin where the one before has ended."""
    in_turn: list[Span] = []
    items: list[ReadResult] = []
    error = ""
    while span is not None and not error:
        in_turn.append(span)
        begun, span = span, None
        part = _part(kit, data, begun, options)
        error = part.error
        for item in part.items:
            if isinstance(item, SpanEnd):
                span = begun.next(item)
            else:
                items.append(item)
    cut = [msgspec.structs.replace(part, length=None, grid=in_turn[0].grid) for part in cut]
    if in_turn != cut[: len(in_turn) if error else None]:
        raise Violation("spans in turn differ", f"{in_turn!r}; {cut!r}")
    return Reading(items, error)


def _are_notices(items: list[ReadResult]) -> bool:
    """Whether nothing but notices is left, which have no bytes of their own."""
    return all(isinstance(result, Notice) for result in items)


def _without_span(result: ReadResult) -> ReadResult:
    if isinstance(result, Record | Membership):
        provenance = msgspec.structs.replace(result.provenance, span=0)
        return msgspec.structs.replace(result, provenance=provenance)
    if isinstance(result, Filtered | RecordBatch | ElementBlock):
        return result
    return msgspec.structs.replace(result, span=0)


def _check_parser(kit: Kit, data: bytes, options: ReadOptions, whole: Reading) -> None:
    """Elements that need no parser are read as by the parser; of two faults, either is told."""
    with by_parser():
        parsed = _read(kit, data, options)
    if [*map(_place, parsed.items)] != [*map(_place, whole.items)] or parsed.error != whole.error:
        raise Violation("the parser differs", _difference(parsed, whole))


def _place(result: ReadResult) -> object:
    if isinstance(result, Reject):
        return result.offset, result.line, result.data
    return result


def _check_batches(
    kit: Kit, data: bytes, options: ReadOptions, whole: Reading, random: Random
) -> None:
    """Batches have the records of single results, and are converted to the same bytes."""
    size, target = random.choice(SIZES), Target(format=random.choice(_TARGETS))
    batched = _read(kit, data, msgspec.structs.replace(options, batch_records=size))
    if not any(isinstance(result, RecordBatch | ElementBlock) for result in batched.items):
        return
    singles: Iterator[ReadResult] = singly(batched.items)
    if (restored := Reading([*singles], batched.error)) != whole:
        raise Violation("batches differ", f"{size}: {_difference(whole, restored)}")
    expected, found = (
        conversion(data, target, batch_records=records, format_=kit.name, reading=options)
        for records in (0, size)
    )
    if found != expected:
        raise Violation("batches are converted to other bytes", f"{size}, {target.format}")


def _check_round_trip(kit: Kit, items: Iterable[ReadResult], options: ReadOptions) -> None:
    """What was read is written again in its own format, and reads back as it was."""
    if kit.format.encoder is None:
        return
    for result in items:
        if isinstance(result, Record | Membership):
            encoder = _encoder(kit, result, options)
            held = _adapted(kit, result) if kit.is_loose else result
            if held is None:
                continue
            try:
                encoded = encoder.encode(held)
            except RecordError as exc:
                if kit.is_loose:
                    continue
                raise Violation(f"not written again: {exc.code}", f"{result!r}: {exc}") from exc
            text = encoder.prolog() + encoder.frame([encoded]) + encoder.epilog()
            _check_read_back(kit, held, text, options)


def _adapted(kit: Kit, result: Record | Membership) -> Record | None:
    """The record as its own format holds it; None where it holds less."""
    if isinstance(result, Membership):
        return None
    outcomes, losses = adapter(Target(format=kit.name))(normalize(result))
    held = outcomes[0]
    return _without_defaults(held) if isinstance(held, Record) and not losses else None


def _without_defaults(record: Record) -> Record:
    """Return a record as it is read back: hints that state their default are not written."""
    if record.crawl is None:
        return record
    hints = msgspec.structs.asdict(record.crawl).items()
    defaults = {
        name: None for name, hint in hints if hint is False or hint in ("", Authmethod.NONE)
    }
    crawl = msgspec.structs.replace(record.crawl, **defaults)
    return msgspec.structs.replace(record, crawl=None if crawl == Crawl() else crawl)


def _encoder(kit: Kit, result: Record | Membership, options: ReadOptions) -> Encoder:
    origin = result.provenance
    feed = Feed(datasource=origin.datasource or "d", feedtype=origin.feedtype or "incremental")
    writing = WriteOptions(
        feed=feed,
        zone=options.zone,
        memberships=isinstance(result, Membership),
        own=options.own,
    )
    return kit.format.make_encoder(writing)


def _check_read_back(
    kit: Kit, result: Record | Membership, text: bytes, options: ReadOptions
) -> None:
    own = options.of(StreamOptions)
    usual = ReadOptions(
        zone=options.zone, own=(StreamOptions(docids=own.docids, strict=own.strict),)
    )
    back = _read(kit, text, usual)
    again = [other for other in back.items if not isinstance(other, Notice)]
    placed = [_without_place(other) for other in again]
    if placed != [_without_place(result)] or back.error:
        expected = Reading([_without_place(result)], "")
        detail = _difference(expected, Reading(placed, back.error))
        raise Violation("round trip differs", f"{detail} by {text!r}")


def _without_place(result: ReadResult) -> ReadResult:
    if isinstance(result, Record | Membership):
        return msgspec.structs.replace(result, provenance=_NOWHERE)
    return result


def _check_memory(kit: Kit, data: bytes, options: ReadOptions) -> None:
    tracemalloc.start()
    try:
        items = _read(kit, data, options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if peak > _MEMORY_BYTES + _MEMORY_FACTOR * len(data):
        raise Violation("memory", f"{peak} bytes for {len(data)}: {len(items.items)} results")


def _difference(expected: Reading, outcome: Reading) -> str:
    """The first result in which two readings differ."""
    for number, (result, other) in enumerate(zip(expected.items, outcome.items, strict=False)):
        if result != other:
            return f"result {number}: {result!r}; {other!r}"
    lengths = len(expected.items), len(outcome.items)
    longer = max(expected.items, outcome.items, key=len)[min(lengths) :][:1]
    return f"{lengths} results, {longer!r}; {expected.error!r}; {outcome.error!r}"

"""What has to hold for every input of every reader and its cutter.

A case is read through the stream class of production: at once, in pieces, and span by span.
"""

import io
import signal
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import IO, NamedTuple, TypeVar

import msgspec

from feedferry.schemas.errors import FeedferryError, FormatError, RecordError
from feedferry.schemas.feed import Feed, FeedHeader
from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Authmethod, Crawl, Provenance, Record
from feedferry.schemas.reject import DEFECT, Reject
from feedferry.schemas.span import ContainerHeader, Span, SpanEnd
from feedferry.testing.format_kit import FormatKit
from feedferry.transforms.formats import (
    ReadOptions,
    ReadResult,
    WriteOptions,
)
from feedferry.transforms.formats.base import Encoder
from feedferry.transforms.rules.adapt import Target, adapter
from feedferry.transforms.rules.normalize import normalize
from feedferry.transforms.sources.files import ByteRangeStream, SpanStream

SOURCE = "f"
CPU_SECONDS = 20
"""Processor time after which a case counts as one that hangs."""
_FREE_RESULTS = 16
_MEMORY_BYTES = 64 << 20
_MEMORY_FACTOR = 100
_NOWHERE = Provenance()


class Violation(AssertionError):  # noqa: N818 - a property does not hold
    """A property does not hold; `name` is what findings of one kind have in common."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class Reading(NamedTuple):
    """What was found until the end, or until an error; this by its text."""

    items: list[ReadResult]
    error: str


_Result = TypeVar("_Result", bound=ReadResult)
Property = Callable[[FormatKit, bytes, ReadOptions, Reading, Random], None]
"""Raises Violation where it does not hold for a reading of an input with these options."""


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


def check(kit: FormatKit, data: bytes, *, seed: int, more: Sequence[Property] = ()) -> None:
    """Raise Violation where a property, one of ours or of `more`, does not hold for one input."""
    random = Random(seed)
    options = random.choice(kit.options)
    with _watched(), _contained():
        whole = read_whole(kit, data, options)
        for holds in (_check_places, _check_pieces, _check_spans, _check_round_trips, *more):
            holds(kit, data, options, whole, random)


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
            module = str(frame.f_globals.get("__name__", ""))
            if module.startswith("feedferry.") and not module.startswith("feedferry.testing."):
                place = f"{module}:{traceback.tb_lineno}"
            traceback = traceback.tb_next
        raise Violation(f"raises {type(exc).__name__} in {place}", str(exc)) from exc


def read_whole(kit: FormatKit, data: bytes, options: ReadOptions) -> Reading:
    """Read an input as one span."""
    return _outcome(kit, io.BytesIO(data), len(data), Span(source=SOURCE), options)


def _outcome(
    kit: FormatKit, stream: IO[bytes] | io.RawIOBase, size: int, span: Span, options: ReadOptions
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


def _check_places(
    kit: FormatKit, data: bytes, _options: ReadOptions, whole: Reading, _random: Random
) -> None:
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
    kit: FormatKit, data: bytes, options: ReadOptions, whole: Reading, random: Random
) -> None:
    sizes = random.choice(((1,), (1, 2, 3), (7,), (64, 1), (1000,), (4096, 5)))
    outcome = _outcome(kit, Pieces(data, sizes), len(data), Span(source=SOURCE), options)
    if outcome != whole:
        raise Violation("pieces differ", f"{sizes}: {difference(whole, outcome)}")


def _check_spans(
    kit: FormatKit, data: bytes, options: ReadOptions, whole: Reading, random: Random
) -> None:
    """Spans are end to end, and give what the whole gives."""
    size = random.choice((1, 50, 300, 1000))
    spans: list[Span] = []
    stream = production_stream(io.BytesIO(data))
    at = 0
    try:
        for span in kit.format.split(stream, source=SOURCE, span_bytes=size, options=options):
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
            raise Violation("spans in turn are read otherwise", difference(alone, in_turn))
    restored = Reading(list(map(_without_span, items)), error)
    count = len(whole.items) if whole.error else None  # a span may end just before the error
    if restored.items[:count] != whole.items or bool(error) != bool(whole.error):
        raise Violation("spans differ", f"{size}: {difference(whole, restored)}")


def _part(kit: FormatKit, data: bytes, span: Span, options: ReadOptions) -> Reading:
    """Return what is read of a span, with the header of its container as of a file."""
    if isinstance(span.position, ContainerHeader):
        header = ContainerHeader(span.position.length, data[: span.position.length])
        span = msgspec.structs.replace(span, position=header)
    return _outcome(kit, io.BytesIO(data[span.offset :]), len(data), span, options)


def _read_in_turn(
    kit: FormatKit, data: bytes, span: Span | None, options: ReadOptions, cut: list[Span]
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
    if isinstance(result, Reject | Notice):
        return msgspec.structs.replace(result, span=0)
    return result


def _check_round_trips(
    kit: FormatKit, _data: bytes, options: ReadOptions, whole: Reading, _random: Random
) -> None:
    """What was read is written again in its own format, and reads back as it was."""
    if kit.format.encoder is None:
        return
    for result in whole.items:
        if isinstance(result, Record | Membership):
            held = _adapted(kit, result) if kit.is_loose else result
            if held is None:
                continue
            text = one_document(kit, held, options)
            if text is not None:
                _check_read_back(kit, held, text, options)
            elif not kit.is_loose:
                raise Violation("not written again", repr(result))


def one_document(kit: FormatKit, item: Record | Membership, options: ReadOptions) -> bytes | None:
    """Return the document of one record or group, None if the format cannot hold it."""
    encoder = _encoder(kit, item, options)
    try:
        encoded = encoder.encode(item)
    except RecordError:
        return None
    return encoder.prolog() + encoder.frame([encoded]) + encoder.epilog()


def _adapted(kit: FormatKit, result: Record | Membership) -> Record | None:
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


def _encoder(kit: FormatKit, result: Record | Membership, options: ReadOptions) -> Encoder:
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
    kit: FormatKit, result: Record | Membership, text: bytes, options: ReadOptions
) -> None:
    back = read_whole(kit, text, kit.without_limits(options))
    placed = [without_place(other) for other in back.items]
    placed = [other for other in placed if not isinstance(other, Notice)]
    if placed != [without_place(result)] or back.error:
        expected = Reading([without_place(result)], "")
        detail = difference(expected, Reading(placed, back.error))
        raise Violation("round trip differs", f"{detail} by {text!r}")


def without_place(result: _Result) -> _Result:
    """Return a record or group without its provenance, and anything else as it is."""
    if isinstance(result, Record | Membership):
        return msgspec.structs.replace(result, provenance=_NOWHERE)
    return result


def check_memory(
    kit: FormatKit, data: bytes, options: ReadOptions, _whole: Reading, _random: Random
) -> None:
    """Raise Violation if reading takes more memory than 64 MiB and 100 times the input."""
    tracemalloc.start()
    try:
        items = read_whole(kit, data, options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    if peak > _MEMORY_BYTES + _MEMORY_FACTOR * len(data):
        raise Violation("memory", f"{peak} bytes for {len(data)}: {len(items.items)} results")


def difference(expected: Reading, outcome: Reading) -> str:
    """The first result in which two readings differ."""
    for number, (result, other) in enumerate(zip(expected.items, outcome.items, strict=False)):
        if result != other:
            return f"result {number}: {result!r}; {other!r}"
    lengths = len(expected.items), len(outcome.items)
    longer = max(expected.items, outcome.items, key=len)[min(lengths) :][:1]
    return f"{lengths} results, {longer!r}; {expected.error!r}; {outcome.error!r}"
